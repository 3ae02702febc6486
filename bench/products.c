/* How many multiplications and additions a core makes in a second, by the instruction that makes them.
 *
 *     cc -O3 -mavx2 -mfma bench/products.c -o products && ./products
 *
 * f32 goes by fused multiply-add, 8 products at once. Whole numbers go by vpmaddwd (16 products of 16 bits, added in
 * pairs) or vpmaddubsw (32 of 8 bits, added in pairs into 16 bits, which a second instruction must widen). What counts
 * is products a second: on processors where the second kind starts half as often, int8 is no faster than f32.
 */
#include <immintrin.h>
#include <stdio.h>
#include <time.h>

#define ROUNDS 30000000L
#define CHAINS 12

static double now(void) {
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec + 1e-9 * moment.tv_nsec;
}

static void say(const char *name, double seconds, double products) {
    printf("%-28s %6.1f G instructions/s %7.1f G operations/s\n", name, ROUNDS * CHAINS / seconds / 1e9,
           2 * products * ROUNDS * CHAINS / seconds / 1e9);
}

#define MEASURE(name, products, order, constraint, type, one)               \
    {                                                                       \
        type made[CHAINS], a = one, b = one;                                \
        for (int chain = 0; chain < CHAINS; chain++) made[chain] = one;     \
        double started = now();                                             \
        for (long round = 0; round < ROUNDS; round++)                       \
            _Pragma("GCC unroll 12") for (int chain = 0; chain < CHAINS; chain++) \
                __asm__ volatile(order : constraint(made[chain]) : "x"(a), "x"(b)); \
        say(name, now() - started, products);                               \
    }

int main(void) {
    for (int turn = 0; turn < 3; turn++) {
        MEASURE("f32  vfmadd231ps", 8, "vfmadd231ps %1,%2,%0", "+x", __m256, _mm256_set1_ps(1e-9f))
        MEASURE("i16  vpmaddwd", 16, "vpmaddwd %1,%2,%0", "=x", __m256i, _mm256_set1_epi16(1))
        MEASURE("i8   vpmaddubsw, half of it", 16, "vpmaddubsw %1,%2,%0", "=x", __m256i, _mm256_set1_epi8(1))
    }
    return 0;
}
