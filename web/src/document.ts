/**
 * What the page is given: format qkv-inspect/1.
 *
 * `layer` and `head` count from 1, as in `qkv inspect --head 2.5`; layer 0 is what enters the first block. `token` counts from 0.
 * Any section may be absent; its view is then left out. A number that is not finite is null.
 */
export const FORMAT = 'qkv-inspect/1';

export interface Token {
  id: number;
  text: string;
}
/** A matrix of float16, little-endian, row by row, in base64. */
export interface Packed {
  shape: [number, number];
  data: string;
}
interface MapHeader {
  name: 'encoder' | 'decoder' | 'cross' | 'self';
  layers: number;
  heads: number;
  rows: number;
  columns: number;
  causal: boolean;
  scale: number;
}
/** Every weight, times 255, as bytes: layer, head, row, column. */
export type DenseMap = MapHeader & { data: string };
/** The k largest weights of a row: columns as uint16, little-endian, and weights times 255 as bytes. */
export type TopMap = MapHeader & { k: number; index: string; value: string };
export type AttentionMap = DenseMap | TopMap;

export interface Guess {
  text: string;
  p: number | null;
}
export interface Part {
  path: string;
  kind: string;
  shape: number[] | string | null;
  parameters: number | null;
  flops: number | null;
  source: string | null;
}
export interface HeadRow {
  layer: number;
  head: number;
  role: string;
  score: number | null;
  baseline: number | null;
  low: number | null;
  high: number | null;
  whole: number | null;
  without: number | null;
  only: number | null;
  /** On which texts the loss was measured. */
  measured?: string | null;
}
export interface WorkedItem {
  token: number;
  query: number[];
  keys: number[][];
  values: number[][];
  dots: number[];
  scaled: number[];
  allowed: (boolean | number)[];
  weights: number[];
  mixed: number[];
}
export interface Model {
  name: string;
  kind: string;
  layers?: number;
  heads?: number;
  width?: number;
  parameters?: number;
  vocabulary?: number;
  context?: number;
}
export interface Inspection {
  format: string;
  model: Model;
  text: string;
  /** What comes out: scores of the next piece, of the one under a mask, of labels, of tags; or vectors alone. */
  answer?: 'next' | 'mask' | 'label' | 'tags' | 'vectors';
  /** The token that is first seen. */
  focus?: number;
  views?: string[];
  tokens: Token[];
  source_tokens?: Token[];
  exact?: Record<string, string>;
  explain?: Record<string, string>;
  anatomy?: Part[];
  positions?: Packed;
  embeddings?: Packed;
  residual?: { norms: (number | null)[][] };
  /** Where the norms of a block stand; absent where there are no blocks. */
  block?: { norm: 'before' | 'after'; cross: boolean };
  attention?: AttentionMap[];
  heads?: HeadRow[];
  /** `size`: numbers in each vector; of a large head only the first are in the document. */
  worked?: { stack?: AttentionMap['name']; layer: number; head: number; size: number; items: WorkedItem[] };
  lens?: { layer: number; top: Guess[][] }[];
  next?: { steps: { name: string; knob: string | number | null; rows: Guess[] }[] };
  why?: {
    methods: { name: string; values: (number | null)[] }[];
    target: string;
    p: number | null;
    faithful?: string;
    over?: 'tokens' | 'source_tokens';
    /** Of each token the number of its word, or -1; and the words. */
    places?: number[];
    words?: string[];
  };
  /** `alike`: by layer, the mean cosine between every two texts. */
  meaning?: { word: string; points: { text: string; layer: number; x: number; y: number }[]; alike?: (number | null)[] };
}
export type Reading = Inspection | { refusal: string };

export function read(text: string): Reading {
  let found: Partial<Inspection>;
  try {
    found = JSON.parse(text);
  } catch {
    return { refusal: 'The data in this page cannot be read. Write the page again with qkv inspect --html.' };
  }
  if (found?.format !== FORMAT)
    return { refusal: `This page draws ${FORMAT}, and its data are of another format. Write the page again.` };
  if (!found.model || !Array.isArray(found.tokens)) return { refusal: 'The data in this page name no model or no tokens.' };
  return found as Inspection;
}

/** Whether there is something to draw. */
export const filled = (section: unknown): boolean =>
  Array.isArray(section) ? section.length > 0 : section !== undefined && section !== null;

/** The words that ask (rows) and the words that are looked at (columns). */
export function sides(doc: Inspection, map: AttentionMap | undefined): { rows: Token[]; columns: Token[] } {
  const source = doc.source_tokens ?? doc.tokens;
  return {
    rows: map?.name === 'encoder' ? source : doc.tokens,
    columns: map?.name === 'encoder' || map?.name === 'cross' ? source : doc.tokens,
  };
}
