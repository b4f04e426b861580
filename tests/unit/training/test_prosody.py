"""Rhyme and tone as the model card counts them."""

from training.prosody import alternates, is_level, prosody, rhymes, shuffled

# 白日依山尽，黄河入海流。欲穷千里目，更上一层楼。流 and 楼 rhyme, both in a level tone.
REGULAR = ["白日依山尽", "黄河入海流", "欲穷千里目", "更上一层楼"]


def test_rhyme_goes_by_track_and_not_by_spelling() -> None:
    assert rhymes("流", "楼")  # iu and ou
    assert rhymes("山", "间")
    assert not rhymes("山", "流")
    assert not rhymes("流", "流")  # the same character is no rhyme


def test_level_tones_are_the_first_two() -> None:
    assert [is_level(char) for char in "江流水月"] == [True, True, False, False]


def test_alternation_looks_at_the_even_places() -> None:
    assert alternates("欲穷千里目")  # 穷 level, 里 oblique
    assert not alternates("山山山山山")


def test_a_real_quatrain_scores_full_rhyme() -> None:
    found = prosody([REGULAR])
    assert (found["rhyme"], found["level_rhyme"]) == (1.0, 1.0)


def test_shuffling_keeps_characters_and_shape() -> None:
    dealt = shuffled([REGULAR])
    assert sorted("".join(dealt[0])) == sorted("".join(REGULAR))
    assert [len(clause) for clause in dealt[0]] == [5, 5, 5, 5]
