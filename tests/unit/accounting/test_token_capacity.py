"""Token capacity is the same for placements, simulations and the page's sizes."""

from app.scale.size import answer
from engine.accounting.layer_times import layer_file
from engine.accounting.presets import presets
from engine.accounting.token_capacity import room_tokens

KNOWN = presets()


def test_the_page_and_an_instance_have_the_same_token_capacity() -> None:
    for model, tp in sorted({(one.model, one.tensor_parallel) for one in layer_file().layer}):
        query = {"model": model, "tensor_parallel": str(tp)}
        sized = answer(query, KNOWN)
        token = next(one.value for one in sized["sizes"] if one.id == "kv_token")
        for card in sized["gpus"]:
            free_bytes = card["numbers"][0]
            assert free_bytes.id == "kv_room"
            assert room_tokens(KNOWN.models[model], KNOWN.gpus[card["id"]], tp) == max(0, free_bytes.value // token), (
                card["id"]
            )


def test_longer_steps_and_fewer_stages_reduce_the_token_capacity() -> None:
    """A stage of 20 layers of OPT-13B has half of the 26 GB of weights and half of a token's 800 KiB. Each GPU has its
    own activations and reserve.
    """
    model, card = KNOWN.models["opt-13b"], KNOWN.gpus["a100-80gb"]
    assert room_tokens(model, card, max_num_batched_tokens=16_384) < room_tokens(model, card)
    step = 8192 * (2 * 5120 + 3 * 20_480) * 2
    free_bytes = 0.9 * card.room_bytes - 13e9 - step - (1 << 30)
    assert room_tokens(model, card, 1, 2) == free_bytes // (400 * 1024)
    assert room_tokens(KNOWN.models["llama-2-70b"], card) == 0, "138 GB of weights"
