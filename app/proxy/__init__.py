"""Proxy in front of another server's API: it forwards requests and responses unchanged, and records the requests.

client --HTTP--> server.py --HTTP(S)--> upstream     bytes are forwarded unchanged
                    |
                    v  after the response
                 exchange.py --> a line of a JSONL file, without keys
"""
