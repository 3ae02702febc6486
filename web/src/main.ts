/** Reads the document in the page and draws it. */
import { mount } from 'svelte';
import './page.css';
import Page from './Page.svelte';
import Refusal from './Refusal.svelte';
import { read, type Reading } from './document';

const target = document.getElementById('page')!;
const reading: Reading = read(document.getElementById('qkv-data')?.textContent ?? '');
if ('refusal' in reading) {
  mount(Refusal, { target, props: { reason: reading.refusal } });
} else {
  document.title = `${reading.model.name} · qkv`;
  mount(Page, { target, props: { doc: reading } });
}
