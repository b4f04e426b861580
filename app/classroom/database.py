"""Database of stored classes. Import it lazily, because it imports SQLAlchemy.

SQLite overwrites deleted rows (`secure_delete`), so deleted results cannot be recovered from the file.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import sqlalchemy as sql
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from app.classroom.answers import StoredClass
from app.classroom.refusing import refusal
from app.classroom.results import ClassResults, QuestionResult
from app.ground.errors import AppError, one_sentence

_meta = sql.MetaData()
_classes = sql.Table(
    "classes",
    _meta,
    sql.Column("id", sql.String(64), primary_key=True),
    sql.Column("title", sql.String(200), nullable=False),
    sql.Column("names", sql.String(16), nullable=False),
    sql.Column("began", sql.Float(53), nullable=False),
    sql.Column("ended", sql.Float(53)),
    sql.Column("until", sql.Date, nullable=False),
    sql.Column("lost", sql.JSON, nullable=False),
)
_students = sql.Table(
    "students",
    _meta,
    sql.Column("class_id", sql.ForeignKey("classes.id"), primary_key=True),
    sql.Column("place", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("name", sql.String(64), nullable=False),
)
_questions = sql.Table(
    "questions",
    _meta,
    sql.Column("class_id", sql.ForeignKey("classes.id"), primary_key=True),
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("kind", sql.String(16), nullable=False),
    sql.Column("text", sql.Text, nullable=False),
    sql.Column("options", sql.JSON, nullable=False),
    sql.Column("right", sql.JSON),
    sql.Column("asked", sql.Float(53), nullable=False),
    sql.Column("rounds", sql.Integer, nullable=False),
)
_answers = sql.Table(
    "answers",
    _meta,
    sql.Column("class_id", sql.ForeignKey("classes.id"), primary_key=True),
    sql.Column("question", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("round", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("place", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("given", sql.JSON),
)
_CHILD_TABLES = (_answers, _questions, _students)


def database_url(given: str) -> URL:
    """Parse a database address. Raises ValueError if it is invalid or its driver is missing."""
    try:
        url = make_url(given)
        url.get_dialect()
    except (ArgumentError, SQLAlchemyError, ImportError) as error:
        raise ValueError(one_sentence(error)) from error
    return url


def file_url(path: Path) -> URL:
    """Return the SQLite URL of a file."""
    return URL.create("sqlite", database=str(path))


class Database:
    """Stored classes in the database at an address. Methods may be called from any thread.

    Raises (every method):
        AppError: `unavailable`, when the database cannot be reached or written.
    """

    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine: sql.Engine | None = None
        self._lock = threading.Lock()

    def save(self, results: ClassResults, until: datetime.date) -> None:
        """Store a class as it is now, replacing an earlier version."""
        with self._writing() as connection:
            _delete(connection, [results.id])
            connection.execute(
                sql.insert(_classes).values(
                    id=results.id,
                    title=results.title,
                    names=results.names,
                    began=results.began,
                    ended=results.ended,
                    until=until,
                    lost=results.lost,
                )
            )
            _insert(
                connection,
                _students,
                [{"class_id": results.id, "place": i, "name": name} for i, name in enumerate(results.students)],
            )
            _insert(
                connection,
                _questions,
                [
                    {
                        "class_id": results.id,
                        "number": one.number,
                        "kind": one.kind,
                        "text": one.text,
                        "options": one.options,
                        "right": one.right,
                        "asked": one.asked,
                        "rounds": len(one.rounds),
                    }
                    for one in results.questions
                ],
            )
            _insert(
                connection,
                _answers,
                [
                    {"class_id": results.id, "question": one.number, "round": number, "place": place, "given": given}
                    for one in results.questions
                    for number, votes in enumerate(one.rounds)
                    for place, given in votes.items()
                ],
            )

    def all(self) -> list[StoredClass]:
        """Return the stored classes, the latest first."""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(sql.select(_classes).order_by(_classes.c.began.desc())).all()
            return [
                {
                    "id": row.id,
                    "title": row.title,
                    "names": row.names,
                    "began": row.began,
                    "ended": row.ended,
                    "until": row.until.isoformat(),
                    "students": _count(connection, _students, row.id),
                    "questions": _count(connection, _questions, row.id),
                }
                for row in rows
            ]

    def get(self, class_id: str) -> ClassResults | None:
        """Return a stored class; None if there is none."""
        with self._reading() as connection:
            row = None
            if connection is not None:
                row = connection.execute(sql.select(_classes).where(_classes.c.id == class_id)).one_or_none()
            if connection is None or row is None:
                return None
            students = _rows(connection, _students, class_id, _students.c.place)
            questions = _rows(connection, _questions, class_id, _questions.c.number)
            answers = _rows(connection, _answers, class_id, _answers.c.place)
            votes: dict[tuple[int, int], dict[int, object]] = {}
            for one in answers:
                votes.setdefault((one.question, one.round), {})[one.place] = one.given
            found = {
                "id": row.id,
                "title": row.title,
                "names": row.names,
                "began": row.began,
                "ended": row.ended,
                "lost": row.lost,
                "students": [one.name for one in students],
                "questions": [
                    msgspec.convert(
                        {
                            "number": one.number,
                            "kind": one.kind,
                            "text": one.text,
                            "options": one.options,
                            "right": one.right,
                            "asked": one.asked,
                            "rounds": [votes.get((one.number, number), {}) for number in range(one.rounds)],
                        },
                        QuestionResult,
                    )
                    for one in questions
                ],
            }
            return msgspec.convert(found, ClassResults)

    def delete(self, class_id: str) -> None:
        """Delete the stored results of a class."""
        if self._may_exist():
            with self._writing() as connection:
                _delete(connection, [class_id])

    def expire(self, today: datetime.date) -> int:
        """Delete classes stored until the day before or earlier. Return their number."""
        if not self._may_exist():
            return 0
        with self._writing() as connection:
            query = sql.select(_classes.c.id).where(_classes.c.until < today)
            expired = list(connection.execute(query).scalars())
            _delete(connection, expired)
        return len(expired)

    def close(self) -> None:
        """End its connections."""
        if self._engine is not None:
            self._engine.dispose()

    # Inside

    def _may_exist(self) -> bool:
        """Return whether the database may exist. A SQLite file is created when the first class is stored."""
        url = self._url
        is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
        return not is_file or Path(str(url.database)).exists()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        try:
            with self._lock:
                if self._url.get_backend_name() == "sqlite" and not self._may_exist():
                    Path(str(self._url.database)).parent.mkdir(parents=True, exist_ok=True)
                engine = self._connect()
                _meta.create_all(engine)
                with engine.begin() as connection:
                    yield connection
        except AppError:
            raise
        except Exception as error:  # a driver's own errors too: what cannot be resolved, or refuses to connect
            raise _unavailable(error) from error

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """Yield a connection; None if nothing was ever stored."""
        try:
            if not self._may_exist():
                yield None
                return
            with self._lock:
                engine = self._connect()
                if not sql.inspect(engine).has_table(_classes.name):
                    yield None
                    return
                with engine.connect() as connection:
                    yield connection
        except AppError:
            raise
        except Exception as error:  # a driver's own errors too: what cannot be resolved, or refuses to connect
            raise _unavailable(error) from error

    def _connect(self) -> sql.Engine:
        if self._engine is None:
            self._engine = sql.create_engine(self._url, hide_parameters=True)
            if self._url.get_backend_name() == "sqlite":
                sql.event.listen(self._engine, "connect", _enable_secure_delete)
        return self._engine


def _enable_secure_delete(connection: object, _: object) -> None:
    connection.execute("PRAGMA secure_delete = ON")  # type: ignore[attr-defined]


def _unavailable(error: Exception) -> AppError:
    """Return the error in one sentence, without the SQL statement and its values."""
    cause = getattr(error, "orig", None) or error
    return refusal("unavailable", "classes.database", error=one_sentence(cause)[:200])


def _delete(connection: Connection, ids: list[str]) -> None:
    for table in _CHILD_TABLES:
        connection.execute(sql.delete(table).where(table.c.class_id.in_(ids)))
    connection.execute(sql.delete(_classes).where(_classes.c.id.in_(ids)))


def _insert(connection: Connection, table: sql.Table, rows: list[dict[str, object]]) -> None:
    if rows:
        connection.execute(sql.insert(table), rows)


def _count(connection: Connection, table: sql.Table, class_id: str) -> int:
    query = sql.select(sql.func.count()).select_from(table).where(table.c.class_id == class_id)
    return int(connection.execute(query).scalar_one())


def _rows(
    connection: Connection, table: sql.Table, class_id: str, order: sql.ColumnElement[int]
) -> list[sql.Row[tuple[object, ...]]]:
    return list(connection.execute(sql.select(table).where(table.c.class_id == class_id).order_by(order)).all())
