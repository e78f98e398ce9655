import pytest

pytest.register_assert_rewrite("tests.clients.worker_contract")
