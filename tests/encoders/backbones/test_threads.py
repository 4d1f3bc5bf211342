"""The number of threads is torch's own choice or the user's."""

import pytest
import torch
from slotrag import UsageError
from slotrag.encoders.backbones.threads import set_threads


def test_thread_setting():
    before = torch.get_num_threads()
    try:
        set_threads(2)
        assert torch.get_num_threads() == 2
        set_threads(None)
        assert torch.get_num_threads() == before
        with pytest.raises(UsageError):
            set_threads(-1)
    finally:
        set_threads(None)
        torch.set_num_threads(before)
