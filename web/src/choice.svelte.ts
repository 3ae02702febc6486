/** What the reader has chosen: one word, one layer, one head, one map, shared by all views. And the colours. */
import type { AttentionMap, Inspection, Token } from './document';
import { sides } from './document';
import { weights, type Weights } from './decode';

export const choice = $state({ token: 0, layer: 0, head: 0, map: 0 });
export const colours = $state({ version: 0, theme: 'auto' as 'auto' | 'light' | 'dark' });

export function setTheme(theme: 'auto' | 'light' | 'dark'): void {
  colours.theme = theme;
  document.documentElement.dataset.theme = theme;
  colours.version++;
}

/** Canvases are painted with the colours of the moment: of the system's change, of paper while printing. */
export function watchColours(): void {
  const again = () => void colours.version++;
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
  matchMedia('print').addEventListener('change', again);
}

const clamp = (x: number, length: number) => Math.max(0, Math.min(Math.round(x) || 0, length - 1));

/** The maps, decoded once, when somebody looks. */
export class Maps {
  readonly maps: AttentionMap[];
  private decoded: (Weights | undefined)[] = [];
  constructor(private doc: Inspection) {
    this.maps = doc.attention ?? [];
  }
  get map(): AttentionMap | undefined {
    return this.maps[choice.map];
  }
  get weights(): Weights | undefined {
    const map = this.map;
    return map && (this.decoded[choice.map] ??= weights(map));
  }
  get rows(): Token[] {
    return sides(this.doc, this.map).rows;
  }
  get columns(): Token[] {
    return sides(this.doc, this.map).columns;
  }
  get layers(): number {
    return this.map?.layers ?? this.doc.model.layers ?? 1;
  }
  get heads(): number {
    return this.map?.heads ?? this.doc.model.heads ?? 1;
  }
  choose(wanted: Partial<typeof choice>): void {
    if (wanted.map !== undefined) choice.map = clamp(wanted.map, this.maps.length);
    choice.token = clamp(wanted.token ?? choice.token, this.rows.length);
    choice.layer = clamp(wanted.layer ?? choice.layer, this.layers);
    choice.head = clamp(wanted.head ?? choice.head, this.heads);
  }
}
