"""A class: one presenter, many followers, one run that all of them watch, and questions to all of them.

    presenter --cast, ask, reveal--> Classroom --"class": its whole public state--> followers and presenters
    followers --answer, lost-------> Classroom --"class_desk": the attendance-----> presenters

Records have their own channel (`app/session/broadcast.py`): a class says where to look, never what is there. Each
message has the whole state of a class, so a client that missed one is current again after the next. `codes` admits
people, `access` holds permissions, `polls` counts, `classroom` is one class, `classrooms` are all of a server.
"""
