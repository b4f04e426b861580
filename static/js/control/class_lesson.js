// Lesson on a class's stage: followers read up to the presenter's position, and answer as members of the class.

import { batch, effect, untracked } from "../../vendor/signals/signals.js";
import { language } from "../i18n/language.js";
import { addMoreWords } from "../i18n/words.js";
import { fetchItems } from "../net/live_course.js";
import { session } from "../net/session.js";
import { answersTo, attends, classState, lessonQuestion, ownSeat, presents, roaming } from "../state/classroom.js";
import { currentLesson, openedAs } from "../state/lessons.js";
import { settings } from "../state/settings.js";
import { requestOfClass } from "./class_requests.js";

/** Start following the class's lesson, while the page is in a class. */
export function followClassLesson() {
  effect(() => {
    const [lesson, code] = [classState.value?.lesson, language.value];
    if (!lesson || roaming.value) return;
    const now = currentLesson.peek();
    const isOutdated = now?.theater !== lesson.theater || now.progress.at !== lesson.at || now.language !== code;
    // the teacher view shows the lesson on its own page
    const isPresenter = presents.value && settings.viewMode.value !== "teacher";
    const mustFetch = isPresenter ? now?.theater === lesson.theater && now.progress.at !== lesson.at : isOutdated;
    if (mustFetch) untracked(() => fetchLesson(lesson.theater));
  });
  effect(() => {
    const [theater, item, code] = [classState.value?.poll?.theater, classState.value?.poll?.item, language.value];
    const known = lessonQuestion.peek();
    const isKnown = known?.theater === theater && known?.item.index === item && known?.language === code;
    if (theater && !isKnown) untracked(() => fetchQuestion(theater, item ?? -1));
  });
  effect(() => {
    if (attends.value && classState.value && !classState.value.lesson && currentLesson.peek()?.source === "class")
      currentLesson.value = null;
  });
  effect(() => {
    const [poll, own] = [classState.value?.poll, ownSeat.value];
    if (poll && own) untracked(markOwn);
  });
}

/**
 * Answer the class's question in its current round. `given` null: not sure.
 * @param {import("../core/wire.js").PollState["right"]} given
 */
export async function answerToClass(given) {
  const poll = classState.peek()?.poll;
  if (poll) await requestOfClass("class_answer", { poll: poll.id, round: poll.round, given });
}

/**
 * Fetch the question that a lesson asks the class, for a page on which that lesson is not open.
 * @param {string} theater
 * @param {number} index
 */
async function fetchQuestion(theater, index) {
  const { client } = session;
  try {
    const code = language.peek();
    const opened = await fetchItems(theater);
    addMoreWords(code, opened.words);
    const item = opened.items.find((one) => one.index === index);
    if (item?.kind === "ask") lessonQuestion.value = { theater, language: code, item };
  } catch (error) {
    session.reportFailure(error, client);
  }
}

let numFetches = 0; // an earlier fetch may finish last

/** Fetch the lesson up to the class's position. @param {string} theater */
async function fetchLesson(theater) {
  const { client } = session;
  const fetchNumber = ++numFetches;
  try {
    const opened = await fetchItems(theater);
    if (fetchNumber !== numFetches) return;
    if (classState.peek()?.lesson?.theater !== opened.theater) return;
    const code = language.peek();
    addMoreWords(code, opened.words);
    const source = presents.peek() && settings.viewMode.peek() !== "teacher" ? "live" : "class";
    const { changes, again } = { changes: {}, again: [], ...currentLesson.peek() };
    batch(() => {
      currentLesson.value = openedAs(opened, { language: code, source, changes, again });
      markOwn();
    });
  } catch (error) {
    session.reportFailure(error, client);
  }
}

/** Add this seat's answers to the questions of the class's lesson. */
function markOwn() {
  const now = currentLesson.peek();
  if (now?.source !== "class" || !attends.peek()) return;
  const items = now.items.map((item) => {
    if (item.kind !== "ask") return item;
    const given = ownAnswers(now.theater, item.index);
    return { ...item, given, whys: given.map(() => null) };
  });
  currentLesson.value = { ...now, items };
}

/**
 * Return this seat's answer to a lesson's question in its last round, as a list of at most one.
 * @param {string} theater
 * @param {number} item
 */
function ownAnswers(theater, item) {
  const poll = classState.peek()?.poll;
  const past = ownSeat.peek()?.answers.findLast((one) => one.theater === theater && one.item === item);
  const isCurrent = poll?.theater === theater && poll.item === item;
  const given = isCurrent ? answersTo(poll) : past?.has.at(-1) ? past.given.slice(-1) : [];
  return /** @type {(number | null)[]} */ (given.filter((one) => one === null || typeof one === "number"));
}
