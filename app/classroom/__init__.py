"""Classes: a presenter, followers, the run that all of them watch, and questions to the followers.

    presenter --cast, ask, reveal--> Classroom --"class": the public state--> followers and presenters
    followers --answer, lost-------> Classroom --"class_desk": attendance---> presenters

These messages select a run and a view; its records are sent by `app/session/broadcast.py`. Each message has the
complete state of a class, so a client that missed one is up to date after the next. `codes` admits people, `access`
checks permissions, `polls` counts answers, `classroom` is one class, and `classrooms` are all classes of a server.
"""
