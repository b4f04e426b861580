"""What is drawn of a log that is too long to be read whole: numbers a record, blocks at any record, requests.

`make` reads a log once, by the one reducer (`engine.trace.apply`), and writes two files; `LogIndex` answers from them
without reading the log again. They hold nothing that the log does not say, may be deleted at any time, and are made
anew when they are damaged or the log is another.
"""
