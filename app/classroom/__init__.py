"""A class: one presenter, many followers, one run that all of them watch, and questions to all of them.

    presenter --cast, ask, reveal--> Classroom --"class": its whole public state--> followers and presenters
    followers --answer, lost-------> Classroom --"class_desk": who is there--------> presenters

Records go their own way (`app/session/broadcast.py`): a class says where one looks, never what is there. What is sent
of a class is always the whole of its state, so who missed something is right again with the next message. `codes` lets
people in, `access` says who may do what, `polls` counts, `classroom` is one class, `classrooms` are all of a server.
"""
