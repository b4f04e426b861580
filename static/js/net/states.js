// Transition table of the page's session. STATES.md shows it as a diagram.

/**
 * - `idle`: the page has just started
 * - `connecting`: waiting for the server's first response
 * - `offline`: the server is unreachable, and nothing was followed yet
 * - `live`: a session is followed
 * - `lost`: a session is followed, and the server is unreachable; its log continues when the server is back
 * - `recording`: a recording of the server is shown; the server may be unreachable meanwhile
 * - `file`: a log without a server: a file's, or that of a deleted recording
 * - `gone`: the run is lost, or there was none; the loaded log stays readable
 *
 * @typedef {"idle" | "connecting" | "offline" | "live" | "lost" | "recording" | "file" | "gone"} SessionState
 */

/**
 * - `connect`: a connection is opened, and nothing is followed
 * - `follow`: a response that starts or continues a session
 * - `replay`: the same with a recording
 * - `drop`: the connection is lost
 * - `lose`: the server does not know the run, or has none
 * - `show`: a file replaces what was shown
 * - `keep`: the shown file has become a recording of the server
 * - `remove`: the shown recording was deleted
 * - `reread`: the log contradicts itself and is reloaded
 *
 * @typedef {"connect" | "follow" | "replay" | "drop" | "lose" | "show" | "keep" | "remove" | "reread"} SessionEvent
 */

/**
 * Next state by state and event. Events that a state does not list leave it unchanged: a recording stays readable while
 * the server is away.
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
