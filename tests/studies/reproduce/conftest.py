import functools

import pytest

from drgcn.studies.reproduce.backend import run_job

from .small_plan import small_jobs, without_times


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory):
    """What the small plan comes to in so many epochs, job after job in this very process."""

    @functools.cache
    def records(epochs=12):
        out = tmp_path_factory.mktemp("uninterrupted")
        for job in small_jobs(epochs=epochs):
            run_job(job, out)
        return without_times(out)

    return records
