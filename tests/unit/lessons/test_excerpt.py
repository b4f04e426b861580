"""Optional sections of lessons, as lessons of their own."""

from app.lessons.catalogue import Catalogue, excerpt
from app.lessons.lesson import Do, Work


def test_the_allocator_section_is_available_as_a_lesson() -> None:
    found = Catalogue().get("pages.yours")
    assert found is not None and found.id == "pages.yours" and found.num_optional == 0
    assert [type(item) for item in found.items if isinstance(item, Work)] == [Work]
    first = next(item for item in found.items if isinstance(item, Do))
    assert first.action.verb == "restart" and found.prompts["en"][0] == "Who has seen the wind?"


def test_only_optional_sections_are_available_as_lessons() -> None:
    """Other sections continue an earlier run."""
    catalogue = Catalogue()
    for lesson in catalogue.lessons():
        for section in lesson.sections:
            found = excerpt(lesson, section.name)
            if found is not None:
                assert section.optional and found.sections[0].items == section.items
    assert catalogue.get("pages.reserved") is None
    assert catalogue.get("pages.no-such") is None and catalogue.get("no-such.yours") is None
