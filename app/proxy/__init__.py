"""A proxy before another server's API: it passes requests and answers on as they are, and writes down what was asked.

client --HTTP--> server.py --HTTP(S)--> upstream     bytes as they come
                    |
                    v  once an answer is over
                 exchange.py --> a line of a JSONL file, without keys
"""
