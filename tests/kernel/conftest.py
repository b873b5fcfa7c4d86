import pytest

from penstock import kernel


@pytest.fixture(autouse=True)
def _compiled():
    if not kernel.is_compiled:
        pytest.skip(f"no compiled kernel: {kernel.problem}")
