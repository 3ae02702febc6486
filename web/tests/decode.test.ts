import { describe, expect, test } from 'vitest';
import { bytes, half, largest, matrix, pooled, weights } from '../src/decode';
import { read, sides, type AttentionMap, type Inspection } from '../src/document';
import { scale } from '../src/scale';
import { count, digits, number, parts, share, short } from '../src/words';

const base64 = (list: ArrayLike<number>) => btoa(String.fromCharCode(...Array.from(list)));
const header = { name: 'self', layers: 1, heads: 2, rows: 2, columns: 3, causal: false, scale: 1 } as const;
const dense: AttentionMap = { ...header, data: base64([255, 0, 0, 100, 155, 0, 0, 0, 255, 85, 85, 85]) };
const top: AttentionMap = {
  ...header, k: 2,
  index: base64([0, 0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0]),
  value: base64([255, 0, 155, 100, 255, 0, 85, 85]),
};

test('bytes are those of the base64', () => expect([...bytes('AP+A')]).toEqual([0, 255, 128]));

test.each([
  [0x0000, 0], [0x3c00, 1], [0xc000, -2], [0x3555, 0.333251953125], [0x7bff, 65504], [0x0001, 2 ** -24], [0x7c00, Infinity],
])('half %i is %f', (bits, value) => expect(half(bits)).toBe(value));

test('a matrix is read row by row, and its size is checked', () => {
  const packed = { shape: [1, 2] as [number, number], data: base64([0x00, 0x3c, 0x00, 0xc0]) };
  expect([...matrix(packed).values]).toEqual([1, -2]);
  expect(() => matrix({ ...packed, shape: [2, 2] })).toThrow('expected 8');
});

describe.each([['dense', dense], ['top-k', top]] as const)('%s weights', (_, map) => {
  const from = weights(map);
  test('at a place', () => {
    expect(from.at(0, 0, 1, 1)).toBe(155);
    expect(from.at(0, 1, 0, 2)).toBe(255);
    expect(from.at(0, 0, 0, 1)).toBe(0);
  });
  test('the largest come first', () => expect(largest(from, 0, 0, 1, 2).map(([column]) => column)).toEqual([1, 0]));
  test('pooled to its own size is itself', () => expect([...pooled(from, 0, 0, 2, 3)]).toEqual([255, 0, 0, 100, 155, 0]));
  test('pooled smaller keeps the largest', () => expect([...pooled(from, 0, 0, 1, 1)]).toEqual([255]));
  test('pooled larger repeats', () => expect([...pooled(from, 0, 1, 2, 6)].slice(0, 6)).toEqual([0, 0, 0, 0, 255, 255]));
});

test('zeros of a row with fewer than k words are no weights', () => {
  const seen: number[] = [];
  weights(top).each(0, 0, 0, (column) => seen.push(column));
  expect(seen).toEqual([0]);
});

test('weights of the wrong size are refused', () => expect(() => weights({ ...dense, data: base64([1]) })).toThrow('expected 12'));

test('a document is read, another is refused', () => {
  expect(read('{"format":"qkv-inspect/1","model":{"name":"a"},"tokens":[]}')).toHaveProperty('model');
  for (const text of ['', '{', 'null', '{"format":"qkv-inspect/2"}', '{"format":"qkv-inspect/1"}']) expect(read(text)).toHaveProperty('refusal');
});

test('who asks and who answers', () => {
  const doc = { tokens: [{ id: 0, text: 't' }], source_tokens: [{ id: 0, text: 's' }] } as Inspection;
  const names = (name: AttentionMap['name']) => {
    const { rows, columns } = sides(doc, { ...dense, name });
    return rows[0].text + columns[0].text;
  };
  expect(['encoder', 'decoder', 'cross', 'self'].map((name) => names(name as AttentionMap['name']))).toEqual(['ss', 'tt', 'ts', 'tt']);
});

test('words', () => {
  expect(parts(' the')).toEqual({ gap: true, word: 'the' });
  expect(parts('\n').word).toBe('↵');
  expect(parts('  ').word).toBe('␣␣');
  expect(parts('').word).toBe('∅');
  expect(parts('\u0007x').word).toBe('␇x');
  expect(short('incomprehensibilities', 8)).toBe('incompr…');
  expect(short('😀😀😀', 2)).toBe('😀…');
});

test('numbers', () => {
  expect([number(-1.234), number(0.001), number(-0.001), number(null), number(NaN)]).toEqual(['−1.23', '0.00', '0.00', '–', '–']);
  expect([number(6330.2), number(-2.35e10), number(-1000)]).toEqual(['6,330', '−2.35×10¹⁰', '−1,000']);
  expect([3, 0.5, 0.02, 0.001].map(digits)).toEqual([2, 3, 4, 5]);
  expect([share(0.5), share(0.05), share(0.0001), share(0), share(null)]).toEqual(['0.50', '0.050', '<0.001', '0.000', '–']);
  expect([count(999), count(9999), count(65536), count(134_515_008)]).toEqual(['999', '9,999', '65.5 k', '135 M']);
});

test('a scale is a straight line', () => {
  const x = scale([0, 9.3], [0, 100], 4);
  expect([x(0), x(10)]).toEqual([0, 100]);
  expect(x.ticks(4)).toEqual([0, 2, 4, 6, 8, 10]);
  expect(scale([1, 1], [0, 10])(1)).toBe(0);
});
