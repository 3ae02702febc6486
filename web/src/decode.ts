/** From base64 to numbers: matrices of halves, attention weights whole or only the largest of each row. */
import type { AttentionMap, Packed } from './document';

export function bytes(base64: string): Uint8Array {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found;
}

export function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export interface Matrix {
  rows: number;
  columns: number;
  values: Float32Array;
}

export function matrix(packed: Packed): Matrix {
  const raw = bytes(packed.data);
  const [rows, columns] = packed.shape;
  expect(raw.length, rows * columns * 2, 'bytes of halves');
  const values = new Float32Array(rows * columns);
  for (let i = 0; i < values.length; i++) values[i] = half(raw[2 * i] | (raw[2 * i + 1] << 8));
  return { rows, columns, values };
}

export type Visit = (column: number, byte: number) => void;

/** Attention weights as bytes: 255 is all of the attention. */
export interface Weights {
  layers: number;
  heads: number;
  rows: number;
  columns: number;
  /** Calls `visit` for every weight of the row that is known and not zero. */
  each(layer: number, head: number, row: number, visit: Visit): void;
  at(layer: number, head: number, row: number, column: number): number;
}

export function weights(map: AttentionMap): Weights {
  const { layers, heads, rows, columns } = map;
  if ('data' in map) {
    const all = bytes(map.data);
    expect(all.length, layers * heads * rows * columns, 'weights');
    const start = (layer: number, head: number, row: number) => ((layer * heads + head) * rows + row) * columns;
    return {
      layers, heads, rows, columns,
      each(layer, head, row, visit) {
        const first = start(layer, head, row);
        for (let column = 0; column < columns; column++) if (all[first + column]) visit(column, all[first + column]);
      },
      at: (layer, head, row, column) => all[start(layer, head, row) + column],
    };
  }
  const { k } = map;
  const index = bytes(map.index);
  const value = bytes(map.value);
  expect(value.length, layers * heads * rows * k, 'weights');
  expect(index.length, value.length * 2, 'bytes of columns');
  const start = (layer: number, head: number, row: number) => ((layer * heads + head) * rows + row) * k;
  const column = (place: number) => index[2 * place] | (index[2 * place + 1] << 8);
  return {
    layers, heads, rows, columns,
    each(layer, head, row, visit) {
      const first = start(layer, head, row);
      for (let place = first; place < first + k; place++)
        if (value[place] && column(place) < columns) visit(column(place), value[place]);
    },
    at(layer, head, row, wanted) {
      const first = start(layer, head, row);
      for (let place = first; place < first + k; place++) if (value[place] && column(place) === wanted) return value[place];
      return 0;
    },
  };
}

/** The head's map on `height` by `width` cells; where several weights share a cell, the largest stays. */
export function pooled(from: Weights, layer: number, head: number, height: number, width: number): Uint8Array {
  const cells = new Uint8Array(width * height);
  const down = height / from.rows;
  const across = width / from.columns;
  for (let row = 0; row < from.rows; row++) {
    const top = Math.floor(row * down);
    const bottom = Math.max(top + 1, Math.floor((row + 1) * down));
    from.each(layer, head, row, (column, byte) => {
      const left = Math.floor(column * across);
      const right = Math.max(left + 1, Math.floor((column + 1) * across));
      for (let y = top; y < bottom; y++)
        for (let x = left; x < right; x++) if (cells[y * width + x] < byte) cells[y * width + x] = byte;
    });
  }
  return cells;
}

/** The `count` columns with the largest weights of a row, largest first. */
export function largest(from: Weights, layer: number, head: number, row: number, count: number): [number, number][] {
  const found: [number, number][] = [];
  from.each(layer, head, row, (column, byte) => found.push([column, byte / 255]));
  return found.sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, count);
}

function expect(found: number, wanted: number, what: string): void {
  if (found !== wanted) throw new Error(`${found} ${what}, expected ${wanted}`);
}
