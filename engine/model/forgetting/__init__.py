"""KV cache compression: policies score the keys of a head, and those with the lowest scores are masked from then on.

policies.py        the score of each key, one class a policy; no policy knows a budget
forgotten_keys.py  which keys a budget leaves
forgetting.py      what each sequence has forgotten, from which query position on
attention.py       attention under that mask, which feeds the policies with its weights
rotation.py        queries before their rotation, which expected attention needs
"""
