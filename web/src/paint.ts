/** Canvases: sharp on every screen, in the colours of the page. */
import { colours } from './choice.svelte';

export type Colour = [number, number, number];
export interface Palette {
  ink: Colour;
  paper: Colour;
  accent: Colour;
  quiet: Colour;
}

const parse = (text: string): Colour => (text.match(/[\d.]+/g) ?? ['0', '0', '0']).slice(0, 3).map(Number) as Colour;

let last: { version: number; palette: Palette } | undefined;

/** The colours that the style sheet gives to the element #colours. Reading them makes an effect depend on the theme. */
export function palette(): Palette {
  const version = colours.version;
  if (last?.version !== version) {
    const style = getComputedStyle(document.getElementById('colours')!);
    last = {
      version,
      palette: {
        ink: parse(style.color),
        paper: parse(style.backgroundColor),
        accent: parse(style.borderTopColor),
        quiet: parse(style.borderLeftColor),
      },
    };
  }
  return last.palette;
}

export const css = ([r, g, b]: Colour, alpha = 1): string => `rgb(${r} ${g} ${b} / ${alpha})`;

/** How dark a weight is drawn: small ones can still be seen. The legend is drawn by the same rule. */
export const shade = (weight: number): number => weight ** 0.65;

export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d')!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Bytes as a picture of one colour; 255 is full. */
export function picture(cells: Uint8Array, width: number, height: number, colour: Colour): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d')!;
  const image = context.createImageData(width, height);
  const alpha = Uint8Array.from({ length: 256 }, (_, byte) => Math.round(255 * shade(byte / 255)));
  for (let i = 0; i < cells.length; i++) {
    image.data[4 * i] = colour[0];
    image.data[4 * i + 1] = colour[1];
    image.data[4 * i + 2] = colour[2];
    image.data[4 * i + 3] = alpha[cells[i]];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Numbers as a picture: positive in the accent's colour, negative in the quiet one; `reach` is full. */
export function signed(values: ArrayLike<number>, width: number, height: number, reach: number, colours: Palette): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d')!;
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    const colour = values[i] < 0 ? colours.quiet : colours.accent;
    image.data.set(colour, 4 * i);
    image.data[4 * i + 3] = Math.round(255 * Math.min(1, Math.abs(values[i] || 0) / (reach || 1)));
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
