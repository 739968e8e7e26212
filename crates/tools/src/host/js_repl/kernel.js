// The Node side of `js_repl`: runs cells that it reads from standard input, one JSON object a line, and
// answers with lines of its own. Bindings of a cell's top level become properties of the global object, so
// that later cells, and functions of earlier ones, see their present values.
(() => {
  'use strict';
  const fs = require('fs');
  const vm = require('vm');
  const util = require('util');
  const path = require('path');
  const { Console } = require('console');
  const { Readable, Writable } = require('stream');
  const { createRequire } = require('module');
  const { stringify, parse } = JSON;
  const { keys } = Object;
  const later = setImmediate;
  const defineProperty = Object.defineProperty;
  const describe = Object.getOwnPropertyDescriptor;

  const MAX_TEXT = 1 << 20; // characters that one cell prints
  const MAX_VALUE = 100000; // characters of its value
  const workspace = process.cwd();

  // Node has a parser for its own prompt; nothing else of its insides is used.
  let acorn = null;
  for (const find of [
    () => require('internal/deps/acorn/acorn/dist/acorn'),
    () => createRequire(path.join(workspace, 'js_repl.js'))('acorn'),
  ]) {
    try {
      acorn ??= find();
    } catch {}
  }

  const send = (line) => {
    let rest = Buffer.from(stringify({ js: line }) + '\n');
    while (rest.length > 0) {
      try {
        rest = rest.subarray(fs.writeSync(1, rest));
      } catch (error) {
        if (error.code !== 'EAGAIN') return;
      }
    }
  };

  let room = MAX_TEXT;
  let dropped = 0;
  const print = (text) => {
    text = String(text);
    if (text.length > room) {
      dropped += text.length - room;
      text = text.slice(0, room);
    }
    room -= text.length;
    if (text !== '') send({ out: { text } });
  };

  // What a program of the workspace expects of a process, without the streams that the lines need.
  const sink = () => {
    const stream = new Writable({
      decodeStrings: false,
      write(chunk, encoding, done) {
        print(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8'));
        done();
      },
    });
    stream.isTTY = false;
    return stream;
  };
  const [stdout, stderr] = [sink(), sink()];
  const stdin = Readable.from([]);
  const fixed = (object, name, value) =>
    defineProperty(object, name, { value, writable: true, configurable: true, enumerable: true });
  fixed(process, 'stdout', stdout);
  fixed(process, 'stderr', stderr);
  fixed(process, 'stdin', stdin);
  process.exit = (code) => {
    throw new Error(`process.exit(${code ?? ''}) does not end the kernel; use js_repl_reset`);
  };

  let current = 0;
  let last = { id: 0, lines: 0 };
  let calls = 0;
  const waiting = new Map();
  const mediaType = (bytes) => {
    const head = bytes.subarray(0, 12).toString('latin1');
    if (head.startsWith('\x89PNG')) return 'image/png';
    if (head.startsWith('\xff\xd8')) return 'image/jpeg';
    if (head.startsWith('GIF8')) return 'image/gif';
    if (head.startsWith('RIFF') && head.endsWith('WEBP')) return 'image/webp';
    throw new TypeError('emitImage() takes PNG, JPEG, GIF or WebP');
  };
  const imageUrl = (image) => {
    if (typeof image === 'string') {
      return image.startsWith('data:') ? image : imageUrl(fs.readFileSync(image));
    }
    if (image instanceof Uint8Array) {
      const bytes = Buffer.from(image.buffer, image.byteOffset, image.byteLength);
      return `data:${mediaType(bytes)};base64,${bytes.toString('base64')}`;
    }
    if (image?.image_url) return imageUrl(image.image_url);
    if (image?.bytes) return imageUrl(image.bytes);
    if (image?.data && image?.mimeType) return `data:${image.mimeType};base64,${image.data}`;
    throw new TypeError('emitImage() takes a path, bytes, a data URL, or a result with a picture');
  };
  const codex = {
    cwd: workspace,
    homeDir: process.env.HOME,
    tmpDir: process.env.TMPDIR || '/tmp',
    state: {},
    tool(name, args = {}) {
      if (current === 0) {
        return Promise.reject(new Error('no cell is running: tools are called from cells'));
      }
      const id = ++calls;
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        send({ call: { id, name: String(name), args } });
      });
    },
    async emitImage(image) {
      send({ image: { url: imageUrl(await image) } });
    },
  };
  fixed(globalThis, 'codex', codex);
  fixed(globalThis, 'console', new Console({ stdout, stderr, colorMode: false }));
  fixed(globalThis, 'require', createRequire(path.join(workspace, 'js_repl.js')));
  // From here, so that names are looked up in the workspace.
  const load = (name, options) => import(name, options);
  fixed(globalThis, '__import', load);

  // Calls `found` with every node below one.
  const visit = (node, found) => {
    if (!node || typeof node !== 'object') return;
    if (Array.isArray(node)) return node.forEach((child) => visit(child, found));
    if (typeof node.type !== 'string') return;
    found(node);
    for (const key of keys(node)) visit(node[key], found);
  };

  const namesOf = (pattern, names) => {
    switch (pattern?.type) {
      case 'Identifier': names.push(pattern.name); break;
      case 'ObjectPattern': pattern.properties.forEach((it) => namesOf(it.value ?? it.argument, names)); break;
      case 'ArrayPattern': pattern.elements.forEach((it) => namesOf(it, names)); break;
      case 'AssignmentPattern': namesOf(pattern.left, names); break;
      case 'RestElement': namesOf(pattern.argument, names); break;
    }
  };

  const imported = (node, source) => {
    const from = `await __import(${source.slice(node.source.start, node.source.end)})`;
    const whole = node.specifiers.find((it) => it.type === 'ImportNamespaceSpecifier');
    const fields = node.specifiers.filter((it) => it !== whole).map((it) => {
      const name = it.type === 'ImportDefaultSpecifier' ? 'default' : it.imported.name ?? it.imported.value;
      return `${stringify(name)}: ${it.local.name}`;
    });
    const pattern = `{${fields.join(', ')}}`;
    if (whole && fields.length > 0) return `(${whole.local.name} = ${from}, ${pattern} = ${whole.local.name})`;
    if (whole) return `(${whole.local.name} = ${from})`;
    return fields.length > 0 ? `(${pattern} = ${from})` : from;
  };

  // The cell as the body of an async function: its declarations assign to the global object, and its last
  // expression is its value. Every line stays where it is.
  const transform = (source) => {
    const tree = acorn.parse(source, {
      ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true,
      allowImportExportEverywhere: true, allowHashBang: true,
    });
    const [edits, names, functions] = [[], [], []];
    const insert = (at, text, order = 0) => edits.push({ from: at, to: at, text, order });
    const replace = (from, to, text) => edits.push({ from, to, text, order: 0 });
    tree.body.forEach((node, index) => {
      const isLast = index === tree.body.length - 1;
      if (node.type === 'VariableDeclaration') {
        node.declarations.forEach((it) => namesOf(it.id, names));
        replace(node.start, node.declarations[0].start, ';');
        for (const it of node.declarations) {
          insert(it.start, '(', 1);
          if (it.init) insert(it.end, ')');
          else insert(it.end, node.kind === 'var' ? ')' : ' = undefined)');
        }
        insert(node.end, ';', 2);
      } else if (node.type === 'ClassDeclaration') {
        names.push(node.id.name);
        insert(node.start, `;${node.id.name} = `);
        insert(node.end, ';', 2);
      } else if (node.type === 'FunctionDeclaration') {
        functions.push(node.id.name);
      } else if (node.type === 'ImportDeclaration') {
        node.specifiers.forEach((it) => names.push(it.local.name));
        const lines = source.slice(node.start, node.end).replace(/[^\n]/g, '');
        replace(node.start, node.end, `;${imported(node, source)};${lines}`);
      } else if (node.type === 'ExpressionStatement' && isLast) {
        insert(node.start, ';return (');
        insert(node.expression.end, ')');
      }
    });
    visit(tree, (node) => {
      if (node.type === 'ImportExpression') replace(node.start, node.start + 'import'.length, '__import');
    });
    edits.sort((one, other) => one.from - other.from || one.to - other.to || one.order - other.order);
    let [code, at] = ['', 0];
    for (const edit of edits) {
      code += source.slice(at, edit.from) + edit.text;
      at = edit.to;
    }
    const hoisted = functions.map((name) => `globalThis.${name} = ${name};`).join('');
    return { prefix: `(async () => {${hoisted}`, code: code + source.slice(at), names };
  };

  const declare = (names) => {
    for (const name of names) {
      const there = describe(globalThis, name);
      if (there && 'value' in there && there.writable) continue;
      fixed(globalThis, name, undefined);
    }
  };

  // What the engine says of a cell that is no program, as if the cell stood alone.
  const worded = (source, filename) => {
    const prefix = '(async () => {';
    try {
      new vm.Script(`${prefix}${source}\n})`, { filename });
    } catch (error) {
      const lines = String(error.stack).split('\n');
      if (lines[1]?.startsWith(prefix)) {
        lines[1] = lines[1].slice(prefix.length);
        lines[2] = lines[2]?.slice(prefix.length);
      }
      error.stack = lines.join('\n');
      return error;
    }
  };

  const compile = (source, filename) => {
    if (!acorn) throw new Error('this Node has no parser that js_repl can use; use another version of Node');
    let whole;
    try {
      whole = transform(source);
    } catch (error) {
      // The engine words it better than the parser, if it minds too.
      throw worded(source, filename) ?? new SyntaxError(error.message);
    }
    const { prefix, code, names } = whole;
    const script = new vm.Script(`${prefix}${code}\n})()`, { filename, columnOffset: -prefix.length });
    declare(names);
    return script;
  };

  const shownError = (error, filename) => {
    if (!(error instanceof Error) && !util.types.isNativeError(error)) {
      return `Uncaught ${util.inspect(error, { depth: 4 })}`;
    }
    const stack = String(error.stack ?? error);
    const lines = stack.split('\n');
    // Frames of Node and of this kernel say nothing about the cell.
    const frame = /^\s+at /;
    const outer = new RegExp(`^\\s+at cell_${last.id}\\.js:${last.lines + 1}:`);
    const kept = lines.filter((line) => !outer.test(line) && (!frame.test(line) || /\bcell_\d+\.js:/.test(line) || line.includes(workspace + path.sep)));
    const cause = error.cause === undefined ? '' : `\ncause: ${shownError(error.cause, filename)}`;
    return kept.slice(0, 30).join('\n').slice(0, 20000) + cause;
  };

  const shownValue = (value) => {
    if (value === undefined) return null;
    const text = typeof value === 'string' ? value
      : util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: 20000, breakLength: 100 });
    return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}… (${text.length} characters)` : text;
  };

  const finish = (value, error) => {
    if (dropped > 0) send({ out: { text: `\n[… ${dropped} more characters were printed …]\n` } });
    current = 0;
    waiting.clear();
    send({ done: { value, error } });
  };

  const run = async ({ id, code }) => {
    [current, room, dropped] = [id, MAX_TEXT, 0];
    code = code.replace(/^#!/, '//');
    last = { id, lines: code.split('\n').length };
    const filename = `cell_${id}.js`;
    try {
      const value = await compile(code, filename).runInThisContext();
      // Promises that the cell left behind may have failed.
      await new Promise((resolve) => later(resolve));
      finish(shownValue(value), null);
    } catch (error) {
      let shown;
      try {
        shown = shownError(error, filename);
      } catch {
        shown = 'Uncaught value that cannot be shown';
      }
      finish(null, shown);
    }
  };

  const settle = ({ id, value, message }) => {
    const call = waiting.get(id);
    waiting.delete(id);
    if (message === undefined) call?.resolve(value);
    else call?.reject(new Error(message));
  };

  process.on('uncaughtException', (error) => print(`\n${shownError(error, '')}\n`));
  process.on('unhandledRejection', (error) => print(`\nUnhandled rejection: ${shownError(error, '')}\n`));

  let buffered = '';
  const input = fs.createReadStream(null, { fd: 0, encoding: 'utf8' });
  input.on('data', (chunk) => {
    const lines = (buffered + chunk).split('\n');
    buffered = lines.pop();
    for (const line of lines) {
      const message = parse(line);
      if (message.run) run(message.run);
      else if (message.result) settle(message.result);
    }
  });
  input.on('end', () => process.reallyExit(0));
})();
