// Transition table of the page's session. STATES.md shows it as a diagram.

/**
 * - `idle`: the page has just begun
 * - `connecting`: on its way to a first answer of the server
 * - `offline`: the server is away, and nothing was followed yet
 * - `live`: a theater is followed
 * - `lost`: a theater was followed, and the server is away; its log goes on when the server is back
 * - `recording`: a recording of the server is read; the server may be away meanwhile
 * - `file`: a log that no server adds to: a file's, or what is left of a recording that was deleted
 * - `gone`: there is no run any more, or none came; what is here can be read on
 *
 * @typedef {"idle" | "connecting" | "offline" | "live" | "lost" | "recording" | "file" | "gone"} SessionState
 */

/**
 * - `connect`: a connection is made, and nothing is followed
 * - `follow`: the server's answer that begins or goes on with a theater
 * - `replay`: the same with a recording
 * - `drop`: the connection went away
 * - `lose`: the server says that there is no such run, or none at all
 * - `show`: a file takes the place of whatever was shown
 * - `keep`: the file on show is a recording of the server now
 * - `remove`: the recording on show was deleted
 * - `reread`: the log contradicts itself, and is read again from its beginning
 *
 * @typedef {"connect" | "follow" | "replay" | "drop" | "lose" | "show" | "keep" | "remove" | "reread"} SessionEvent
 */

/**
 * Next state by state and event. Events that a state does not list leave it unchanged: a recording stays readable while
 * the server is away.
 *
 * @type {Record<SessionState, Partial<Record<SessionEvent, SessionState>>>}
 */
export const TRANSITIONS = {
  idle: { connect: "connecting", show: "file" },
  connecting: { follow: "live", replay: "recording", drop: "offline", lose: "gone", show: "file" },
  offline: { follow: "live", replay: "recording", lose: "gone", show: "file" },
  live: { replay: "recording", drop: "lost", lose: "gone", reread: "connecting", show: "file" },
  lost: { follow: "live", replay: "recording", lose: "gone", show: "file" },
  recording: { follow: "live", connect: "connecting", remove: "file", lose: "gone", show: "file" },
  file: { follow: "live", replay: "recording", connect: "connecting", keep: "recording", lose: "gone" },
  gone: { follow: "live", replay: "recording", show: "file" },
};

/**
 * Connection state shown for each session state; most views treat a file and a recording alike.
 *
 * @type {Record<SessionState, import("../state/store.js").Connection>}
 */
export const SHOWN_AS = {
  idle: "connecting",
  connecting: "connecting",
  offline: "lost",
  live: "live",
  lost: "lost",
  recording: "replay",
  file: "replay",
  gone: "gone",
};
