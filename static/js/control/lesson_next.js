// A presenter's "next" in the view of lessons. It asks the class a question, or continues the lesson.

import { canAsk, presents } from "../state/classroom.js";
import { checkpoint, currentLesson, lessonAfter } from "../state/lessons.js";
import { askLesson } from "./class_requests.js";
import { answer, continueLesson, openLesson } from "./lesson.js";

/** Continue the lesson. Returns false if the player has to move instead. @returns {Promise<boolean>} */
export async function lessonNext() {
  const now = currentLesson.peek();
  const kind = checkpoint.peek()?.kind;
  if (now?.progress.over) openLesson(lessonAfter(now)?.id ?? null);
  else if (kind === "sandbox") await continueLesson();
  else if (kind === "ask" && presents.peek() && canAsk.peek()) await askLesson();
  else if ((kind === "work" || kind === "mend") && presents.peek()) await answer(null);
  else return now === null; // the list of lessons has nothing to play
  return true;
}
