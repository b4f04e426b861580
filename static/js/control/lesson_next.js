// A presenter's "next" in the view of lessons: a question is put to the class, and the lesson goes on after its end.

import { canAsk, presents } from "../state/classroom.js";
import { checkpoint, currentLesson, lessonAfter } from "../state/lessons.js";
import { askLesson } from "./class_requests.js";
import { answer, goOn, learn } from "./lesson.js";

/** Do what comes next in the lesson; returns false if that is for the player to do. @returns {Promise<boolean>} */
export async function lessonNext() {
  const now = currentLesson.peek();
  const kind = checkpoint.peek()?.kind;
  if (now?.progress.over) learn(lessonAfter(now)?.id ?? null);
  else if (kind === "sandbox") await goOn();
  else if (kind === "ask" && presents.peek() && canAsk.peek()) await askLesson();
  else if ((kind === "work" || kind === "mend") && presents.peek()) await answer(null);
  else return now === null; // the list of lessons has nothing to play
  return true;
}
