"""What only a GPU could run is found outside the files that make its threads and launch bodies."""

import unittest

import kernels

ATOMIC = "  __host__ __device__ uint32_t atomic_min([[maybe_unused]] uint32_t* at, uint32_t value) const {}\n"
KERNEL = "template <class Body>\n__global__ void run_gnn_body(const Body body) {\n  DeviceThread thread;\n  body(thread);\n}\n"


def found(text, name="worker/x/kernel.cu"):
    return kernels.problems_in(name, text)


class Words(unittest.TestCase):
    def test_words_of_a_gpu_are_found_where_bodies_are(self):
        for line in (
            "__global__ void add(int* x) {}",
            "const int i = threadIdx.x;",
            "  __syncthreads();",
            "  total = __shfl_down_sync(mask, total, 1);",
            "  atomicAdd(&sum, 1.0F);",
            "  add<<<1, 32>>>(x);",
            "  __device__ int f();",
            "#include <cub/cub.cuh>",
            "#include <cuda/atomic>",
            'asm volatile("red.global.add.f32 [%0], %1;" : : "l"(sum), "f"(value));',
        ):
            self.assertEqual(len(found(line + "\n")), 1, line)

    def test_bodies_comments_and_texts_are_left_alone(self):
        for line in (
            "GNN_HOST_DEVICE void operator()(Thread& thread) const { thread.sync(); }",
            "// As __syncthreads() and atomicAdd() would.",
            'fail("no __global__ here");',
            "thread.atomic_min(at, value);",
            "#ifdef __CUDA_ARCH__",
            "std::atomic<int> count;",
            "log << a << b;",
        ):
            self.assertEqual(found(line + "\n"), [], line)

    def test_the_line_is_named(self):
        self.assertTrue(found("int a;\n/* two\nlines */ int i = threadIdx.x;\n")[0].startswith("worker/x/kernel.cu:3: threadIdx"))


class ThreadOfAGpu(unittest.TestCase):
    def test_a_kernel_that_calls_a_body_is_left_alone(self):
        self.assertEqual(found(ATOMIC + KERNEL, kernels.THREAD), [])

    def test_a_kernel_that_does_more_is_found(self):
        more = KERNEL.replace("body(thread);", "if (threadIdx.x == 0) body(thread);")
        self.assertEqual(len(found(ATOMIC + more, kernels.THREAD)), 1)

    def test_a_second_kernel_is_found(self):
        self.assertEqual(len(found(ATOMIC + KERNEL + "__global__ void add(int* x) {}\n", kernels.THREAD)), 1)

    def test_an_atomic_on_floating_point_is_found(self):
        floats = ATOMIC.replace("uint32_t", "float")
        self.assertEqual(len(found(floats + KERNEL, kernels.THREAD)), 2)
        self.assertEqual(len(found("  T atomic_add(T* at, T value) const {}\n" + KERNEL, kernels.THREAD)), 2)
        self.assertEqual(len(found("  void add(float* at, float value) const { atomicAdd(at, value); }\n" + KERNEL, kernels.THREAD)), 1)


if __name__ == "__main__":
    unittest.main()
