"""Former name of `engine.observe.vllm_recorder`."""

from engine.observe.vllm_recorder import WatchError as WatchError
from engine.observe.vllm_recorder import watched as watched
