"""An optional section of a lesson as a lesson of its own."""

from app.lessons.catalogue import Catalogue, excerpt
from app.lessons.lesson import Do, Work


def test_the_allocator_is_a_lesson_of_its_own() -> None:
    found = Catalogue().get("pages.yours")
    assert found is not None and found.id == "pages.yours" and found.num_optional == 0
    assert [type(item) for item in found.items if isinstance(item, Work)] == [Work]
    first = next(item for item in found.items if isinstance(item, Do))
    assert first.action.verb == "restart" and found.prompts["en"][0] == "Who has seen the wind?"


def test_only_an_optional_section_that_begins_anew_stands_alone() -> None:
    """Other sections continue the run before them."""
    catalogue = Catalogue()
    for lesson in catalogue.lessons():
        for section in lesson.sections:
            found = excerpt(lesson, section.name)
            if found is not None:
                assert section.optional and found.sections[0].items == section.items
    assert catalogue.get("pages.reserved") is None
    assert catalogue.get("pages.no-such") is None and catalogue.get("no-such.yours") is None
