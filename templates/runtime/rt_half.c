/* Conversions of f16 and bf16 that LLVM calls and that libgcc before 13 lacks (bf16) or before 12 lacks (f16 on x86-64).
 *
 * The ABI passes a half in the low 16 bits of the first vector register (xmm0, v0), which is where a float is passed too; a
 * float whose low 16 bits are the half therefore has the right calling convention with every compiler, also those without
 * _Float16 and __bf16. Results are rounded once, to nearest, ties to even; NaNs stay NaNs (quiet). */
#include <stdint.h>
#include <string.h>

float __truncsfhf2(float value);
float __truncdfhf2(double value);
float __truncsfbf2(float value);
float __truncdfbf2(double value);
float __extendhfsf2(float half);

static uint32_t float_bits(float value) { uint32_t bits; memcpy(&bits, &value, 4); return bits; }
static float bits_float(uint32_t bits) { float value; memcpy(&value, &bits, 4); return value; }

/* double -> a format with `exponent` and `fraction` bits, of 16 in all. Every float is a double, so this serves both. */
static uint16_t narrow(double value, int exponent, int fraction) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  uint16_t sign = (uint16_t)(bits >> 63 << 15);
  uint16_t infinity = (uint16_t)(((1u << exponent) - 1) << fraction);
  uint64_t mantissa = bits & ((1ull << 52) - 1);
  int power = (int)(bits >> 52 & 0x7ff);
  if (power == 0x7ff)                                          /* infinity, or NaN with its leading fraction bits, made quiet */
    return (uint16_t)(sign | infinity | (mantissa ? 1u << (fraction - 1) | mantissa >> (52 - fraction) : 0));
  int bias = (1 << (exponent - 1)) - 1;
  int scaled = power - 1023 + bias;                            /* biased exponent in the target */
  if (scaled >= (1 << exponent) - 1) return sign | infinity;
  if (power) mantissa |= 1ull << 52;
  int drop = 52 - fraction + (scaled < 1 ? 1 - scaled : 0);    /* subnormal: more bits go */
  if (drop > 54) return sign;
  uint64_t kept = mantissa >> drop, rest = mantissa & ((1ull << drop) - 1), half = 1ull << (drop - 1);
  if (rest > half || (rest == half && (kept & 1))) kept++;
  if (scaled > 1) kept += (uint64_t)(scaled - 1) << fraction;  /* the implicit bit, if there, adds the remaining 1 */
  return (uint16_t)(sign | kept);                              /* a carry runs into the exponent, up to infinity */
}

float __truncsfhf2(float value) { return bits_float(narrow(value, 5, 10)); }
float __truncdfhf2(double value) { return bits_float(narrow(value, 5, 10)); }
float __truncsfbf2(float value) { return bits_float(narrow(value, 8, 7)); }
float __truncdfbf2(double value) { return bits_float(narrow(value, 8, 7)); }

float __extendhfsf2(float half) {
  uint32_t bits = float_bits(half) & 0xffff, sign = (bits & 0x8000) << 16, power = bits >> 10 & 31, mantissa = bits & 0x3ff;
  if (power == 31) return bits_float(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 1u << 22 : 0));
  if (power) return bits_float(sign | (power + 112) << 23 | mantissa << 13);
  float magnitude = (float)mantissa * 0x1p-24f;                /* subnormal, or zero */
  return bits_float(sign | float_bits(magnitude));
}
