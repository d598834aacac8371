"""M^T M by scipy: seconds of the product alone, and of what it takes from there to the joined pairs."""

import json
import sys
import time

import numpy
import scipy.sparse

FOLDER, AT_LEAST = sys.argv[1], int(sys.argv[2])


def seconds_of(work):
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - start, time.process_time() - cpu


def join(product):
    product.setdiag(0)
    return (product >= AT_LEAST).tocoo()


users = numpy.fromfile(f"{FOLDER}/users.int32", numpy.int32)
items = numpy.fromfile(f"{FOLDER}/items.int32", numpy.int32)
# int32 indices; float32 and int32 values take the same time. CSR by item times CSR by user is its fastest form.
by_user = scipy.sparse.coo_matrix((numpy.ones(len(users), numpy.float32), (users, items))).tocsr()
by_item = by_user.T.tocsr()
product, seconds, cpu_seconds = seconds_of(lambda: by_item @ by_user)
joined, join_seconds, join_cpu_seconds = seconds_of(lambda: join(product))
print(
    json.dumps(
        {
            "edges": joined.nnz,
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "join_seconds": join_seconds,
            "join_cpu_seconds": join_cpu_seconds,
        }
    )
)
