"""KV cache compression: policies score the keys of a head, and keys with the lowest scores are masked from then on.

policies.py        the score of each key, one class per policy; policies do not depend on the budget
forgotten_keys.py  selection of the keys to forget beyond a budget
forgetting.py      the keys that each sequence has forgotten, and from which query position on
attention.py       attention under that mask, which passes its weights to the policies
rotation.py        queries before their rotation, which expected attention needs
"""
