// Evaluated once, before the image of the memory is taken. What it needs later it keeps in private names, because the
// code that comes after it may replace every global and every prototype.
(function () {
  'use strict';
  const LONGEST = 1024 * 1024;
  const PRINTED = 10 * 1024;
  const MESSAGE = 4 * 1024;

  const stringify = JSON.stringify;
  const evaluate = eval;
  const text = String;
  const keys = Object.keys;
  const slice = Function.prototype.call.bind(String.prototype.slice);
  const OutOfMemory = InternalError;
  const BadSyntax = SyntaxError;

  const original = {};
  const box = { exports: original };
  const builtins = Object.create(null);
  let given;
  let names;
  let declared;
  let last = '';
  let output = '';
  let outcome;

  // What is printed is kept up to its bound; the rest is dropped.
  function shown(value) {
    if (typeof value === 'string') return value;
    try {
      const json = value instanceof Error ? undefined : stringify(value);
      return json === undefined ? text(value) : json;
    } catch {
      return '[object]';
    }
  }

  function print() {
    for (let i = 0; i < arguments.length && output.length < PRINTED; i++) {
      output = slice(output + (i ? ' ' : '') + slice(shown(arguments[i]), 0, PRINTED), 0, PRINTED);
    }
    if (output.length < PRINTED) output += '\n';
  }

  // A restored memory would draw the same numbers in every run, so the host gives each one a seed.
  let a = 1, b = 2, c = 3, d = 4;

  function next() {
    const t = d ^ (d << 11);
    d = c;
    c = b;
    b = a;
    a = (a ^ (a >>> 19) ^ t ^ (t >>> 8)) | 0;
    return a >>> 0;
  }

  // Answers are one text: a letter for the kind, what was printed, a line break, and the payload.
  function report(kind, payload) {
    return kind + stringify(output) + '\n' + payload;
  }

  function described(error) {
    try {
      if (error === null || (typeof error !== 'object' && typeof error !== 'function')) return slice(text(error), 0, MESSAGE);
      const message = error.message;
      if (message === undefined) return slice(text(stringify(error)), 0, MESSAGE);
      return slice(text(message === '' ? error.name : message), 0, MESSAGE);
    } catch {
      return 'an error that can not be shown';
    }
  }

  function failed(error, kind) {
    let told = kind || 'T';
    try {
      if (error instanceof OutOfMemory && error.message === 'out of memory') told = 'M';
      else if (told === 'T' && error instanceof BadSyntax) told = 'S';
    } catch {
      // A prototype that throws tells nothing.
    }
    return report(told, described(error));
  }

  function answered(value) {
    let json;
    try {
      json = stringify(value);
    } catch (error) {
      return failed(error, 'R');
    }
    if (json === undefined) json = 'null';
    return json.length > LONGEST ? report('L', '') : report('V', json);
  }

  async function settle(promise) {
    try {
      const value = await promise;
      outcome = () => answered(value);
    } catch (error) {
      outcome = () => failed(error);
    }
  }

  // Which function is meant: by the names in order, else the only one of an object, or the last one declared.
  function exported() {
    const table = box.exports;
    if (typeof table === 'function') return table;
    for (let i = 0; i < names.length; i++) if (typeof table[names[i]] === 'function') return table[names[i]];
    const own = keys(table);
    let found;
    for (let i = 0; i < own.length; i++) {
      if (typeof table[own[i]] !== 'function') continue;
      if (found !== undefined) return undefined;
      found = table[own[i]];
    }
    return found;
  }

  function bound(name) {
    try {
      const value = evaluate('typeof ' + name + " === 'function' ? " + name + ' : undefined');
      return value === builtins[name] ? undefined : value;
    } catch {
      return undefined;
    }
  }

  function topLevel() {
    for (let i = 0; i < names.length; i++) {
      for (let j = 0; j < declared.length; j++) {
        const value = declared[j] === names[i] ? bound(names[i]) : undefined;
        if (value !== undefined) return value;
      }
    }
    for (let j = declared.length - 1; j >= 0; j--) {
      const value = bound(declared[j]);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  function filled() {
    const table = box.exports;
    if (table === original) return keys(original).length > 0;
    return typeof table === 'function' || (typeof table === 'object' && table !== null);
  }

  function meant(value) {
    if (filled()) return exported() || null;
    if (typeof value === 'function') return value;
    return value === undefined || value === 'use strict' || endsWithFunction() ? topLevel() : undefined;
  }

  // A script whose last statement declares a function has the value of a statement before it, which nobody means.
  function endsWithFunction() {
    if (last === '') return false;
    try {
      return typeof evaluate('(' + last + '\n)') === 'function';
    } catch {
      return false;
    }
  }

  const entries = {
    begin(run) {
      given = run.role === 'validator' ? { ...run.args, args: run.args } : run.args;
      globalThis.args = given;
      names = run.names;
      declared = run.declared;
      last = run.last;
      [a, b, c, d] = run.seed;
    },
    finish(value) {
      try {
        const chosen = meant(value);
        if (chosen === null) return report('N', '');
        const result = chosen === undefined ? value : chosen(given);
        if (result === null || (typeof result !== 'object' && typeof result !== 'function')) return answered(result);
        if (typeof result.then !== 'function') return answered(result);
        outcome = () => report('R', 'the promise never settles');
        settle(result);
        return undefined;
      } catch (error) {
        return failed(error);
      }
    },
    settled: () => outcome(),
    failed: (error) => failed(error),
  };

  const console = {};
  for (const name of ['debug', 'dir', 'error', 'info', 'log', 'table', 'trace', 'warn']) console[name] = print;
  for (const name of ['assert', 'count', 'group', 'groupCollapsed', 'groupEnd', 'time', 'timeEnd', 'timeLog']) {
    console[name] = () => {};
  }
  Object.defineProperty(Math, 'random', {
    value: function random() {
      return (next() * 2097152 + (next() >>> 11)) / 9007199254740992;
    },
    writable: true,
    configurable: true,
  });
  for (const [name, value] of Object.entries({ console, print, module: box, exports: original, entries })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
  for (const name of Object.getOwnPropertyNames(globalThis)) builtins[name] = globalThis[name];
})();
