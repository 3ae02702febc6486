/** Builds web/ into one file: src/qkv/inspection/page.html, with its script and its style inside. */
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

/** A script may hold neither the end of its element nor the begin of a comment: both mean something to the parser. */
const inElement = (code: string) => code.replaceAll('</script', '<\\/script').replaceAll('<!--', '\\x3C!--');

function oneFile(): Plugin {
  return {
    name: 'one-file',
    enforce: 'post',
    generateBundle(_, bundle) {
      const page = bundle['page.html'];
      if (page?.type !== 'asset') throw new Error('there is no page.html in the bundle');
      let scripts = '';
      let styles = '';
      for (const [name, part] of Object.entries(bundle)) {
        if (name === 'page.html') continue;
        if (part.type === 'chunk') scripts += part.code;
        else if (name.endsWith('.css')) styles += part.source;
        else throw new Error(`${name} cannot be put inside`);
        delete bundle[name];
      }
      page.source = String(page.source)
        .replace(/\s*<script[^>]*src=[^>]*><\/script>/g, '')
        .replace(/\s*<link[^>]*rel="stylesheet"[^>]*>/g, '')
        .replace('<!--style-->', () => `<style>${styles.trim()}</style>`)
        .replace('<!--script-->', () => `<script type="module">${inElement(scripts.trim())}</script>`);
    },
  };
}

export default defineConfig({
  base: './',
  // elements are made one by one, never from a string of markup: no innerHTML, even in the framework
  plugins: [svelte({ compilerOptions: { fragments: 'tree', runes: true } }), oneFile()],
  build: {
    outDir: '../src/qkv/inspection',
    emptyOutDir: false,
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox121', 'safari17.5'], // they know light-dark()
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: { input: 'page.html', output: { codeSplitting: false } },
  },
});
