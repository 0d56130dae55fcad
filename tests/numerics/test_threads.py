from __future__ import annotations

import threading
import time

from threadpoolctl import threadpool_info, threadpool_limits

from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.threads import one_blas_thread


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def test_one_thread_inside_and_what_was_there_outside():
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            assert blas_threads() == {1}
            with one_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == {2}


def test_a_fit_leaves_the_setting_alone():
    with threadpool_limits(2, user_api="blas"):
        GaussianProcess().fit([[0.0], [0.5], [1.0]], [0.0, 1.0, 0.5]).posterior([[0.2]])
        assert blas_threads() == {2}


def set_blas_threads(count):
    """From a thread that ends: while the one that made a setting lives, others cannot change it."""
    setter = threading.Thread(target=threadpool_limits, args=[count], kwargs={"user_api": "blas"})
    setter.start()
    setter.join()


def test_several_threads_leave_the_setting_as_it_was():
    def work(pause):
        for _ in range(5):
            with one_blas_thread():
                seen.append(blas_threads())
                time.sleep(pause)

    with one_blas_thread():
        pass  # loads what is looked for
    seen, (default,) = [], blas_threads()
    set_blas_threads(2)
    try:
        before = blas_threads()
        workers = [threading.Thread(target=work, args=[0.001 * i]) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(20)
        assert blas_threads() == before
        assert seen == [{1}] * 20
    finally:
        set_blas_threads(default)
