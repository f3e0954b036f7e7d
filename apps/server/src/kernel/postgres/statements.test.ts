import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { atOnce } from '#src/kernel/slices.ts'
import { expressionProblem } from './expression.ts'
import { lineOfError, maxStatements, sliceCharacters, splitStatements } from './statements.ts'

const split = (script: string) => atOnce(splitStatements(script))
const texts = (script: string) => split(script).map(({ text }) => text)

test('statements end at semicolons and are trimmed', () => {
  assert.deepEqual(texts('select 1;\n  select 2 ;select 3'), ['select 1', 'select 2', 'select 3'])
  assert.deepEqual(texts(''), [])
  assert.deepEqual(texts(' ;;\n ; '), [])
  assert.deepEqual(texts('-- nothing\n/* at all */'), [])
})

test('a semicolon in strings, names, comments or parentheses does not end a statement', () => {
  for (const whole of [
    `select 'a;b''c;d'`,
    `select E'it\\'s; \\\\', 'x\\'`,
    `select E'one\\';' -- first; part\n  'two\\';'`,
    `select U&'d;\\0061', B'1;', e'\\\\;\\''`,
    `create table "a;b" ("c"";d" int)`,
    `select 1 -- a; b\n + 2`,
    `select /* a; /* b; */ c; */ 1`,
    `create rule r as on insert to t do also (insert into a values (1); insert into b values (2))`,
    `select 'a\nb;\nc'`,
  ])
    assert.deepEqual(texts(`${whole};\nselect 2;`), [whole, 'select 2'], whole)
})

test('a backslash does not escape in a plain string', () => {
  assert.deepEqual(texts(`select 'a\\'; select 2`), [`select 'a\\'`, 'select 2'])
  // The letter before it belongs to a name.
  assert.deepEqual(texts(`select date'2020\\'; select 2`), [`select date'2020\\'`, 'select 2'])
})

test('dollar quotes end at their own tag only', () => {
  for (const whole of [
    'do $$ begin perform 1; end $$',
    'do $body$ begin execute $$select 1; select 2$$; end $body$',
    'select $é$;$é$',
    'select a$b$c, 1',
  ])
    assert.deepEqual(texts(`${whole}; select 2`), [whole, 'select 2'], whole)
  assert.deepEqual(texts('select a$b$; select 2'), ['select a$b$', 'select 2'])
  assert.deepEqual(texts('execute p($1); select $2'), ['execute p($1)', 'select $2'])
})

test('the body of a routine in standard SQL is not split', () => {
  const routine = `create or replace function public.f(a int default (1)) returns int language sql
    begin atomic
      select case when a > 1 then (case a when 2 then 1 else 2 end) else 0 end as end;
      select t.end, t.case from t;
      select 2;
    end`
  assert.deepEqual(texts(`${routine}; select 2`), [routine, 'select 2'])
  const procedure =
    'create procedure p() begin atomic insert into t values (1); insert into t values (2); end'
  assert.deepEqual(texts(`${procedure};begin; select 1; end;`), [procedure, 'begin', 'select 1', 'end'])
  assert.deepEqual(texts('select atomic from begin; select 2'), ['select atomic from begin', 'select 2'])
})

test('an unclosed string, comment or parenthesis is not split, so that Postgres reports the error', () => {
  for (const open of [`select 'a; b`, 'select "a; b', 'do $$ a; b', 'select /* a; b', 'select (1; 2'])
    assert.deepEqual(texts(open), [open])
})

test('comments belong to the statement after them', () => {
  assert.deepEqual(texts('-- about one\nselect 1;\n/* about two */ select 2;\n-- the end'), [
    '-- about one\nselect 1',
    '/* about two */ select 2',
  ])
})

test('line numbers count in the whole script', () => {
  const [first, second, third] = split('select 1;\n\n-- why\n/* and\nhow */ select\n  2; select $$\n\n$$, x')
  assert.deepEqual([first!.line, first!.firstLine], [1, 1])
  assert.deepEqual([second!.line, second!.firstLine], [3, 5])
  assert.deepEqual([third!.line, third!.firstLine], [6, 6])
  const at = (text: string) => third!.text.indexOf(text) + 1
  assert.equal(atOnce(lineOfError(third!, at(', x'))), 8)
  assert.equal(atOnce(lineOfError(second!, undefined)), 5)
  // Postgres counts a surrogate pair as one character.
  const [emoji] = split("select '🙂🙂',\nx")
  assert.equal(atOnce(lineOfError(emoji!, 14)), 2)
})

test('the first words of a statement are reported', () => {
  const words = (script: string) => split(script)[0]!.words
  assert.deepEqual(words('/* x */ create unique -- y\n index concurrently on t (a)'), [
    'CREATE',
    'UNIQUE',
    'INDEX',
    'CONCURRENTLY',
    'ON',
    'T',
  ])
  assert.deepEqual(words('Begin;'), ['BEGIN'])
  assert.deepEqual(words('"begin"'), [])
})

test('a psql command extends to the end of its line', () => {
  const script = '\\restrict abc\nselect 1;\n\\unrestrict abc\n'
  assert.deepEqual(texts(script), ['\\restrict abc', 'select 1', '\\unrestrict abc'])
  assert.deepEqual(split(script)[0]!.words, ['\\restrict'])
})

test('statements: COPY from or to the client is detected; a string or column with that name is not', () => {
  const copies = (script: string) => split(script).map(each => each.copies)
  assert.deepEqual(copies("copy t (a) from stdin; COPY (select 1) TO /* x */ STDOUT; copy t from 'stdin'"), [
    'STDIN',
    'STDOUT',
    undefined,
  ])
  assert.deepEqual(copies("select stdin; copy (select stdin from t) to program 'x'"), [undefined, undefined])
})

test('statements: a line comment also ends at a carriage return', () => {
  assert.deepEqual(texts('select 1 -- one\r; select 2'), ['select 1', 'select 2'])
})

/** A text that counts how many of its characters are read. A slice shares its memory and counts once. */
function counted(script: string) {
  const text = {
    reads: 0,
    length: script.length,
    charCodeAt(at: number) {
      text.reads++
      return script.charCodeAt(at)
    },
    slice: (start: number, end: number) => {
      text.reads++
      return script.slice(start, end)
    },
  }
  return text
}

const size = 300_000
const fill = (unit: string, head = '') => head + unit.repeat(Math.ceil(size / unit.length))
const adversaries: Record<string, string> = {
  'statements without a line end': fill('select 1;'),
  'statements of one line each': fill('select 1;\n'),
  'a line end in every place': fill('\n', 'select 1;'),
  'semicolons alone': fill(';'),
  'opening comments': fill('/*'),
  'comments that nest and end': `${'/*'.repeat(size / 4)}${'*/'.repeat(size / 4)}`,
  'comments one behind the other': fill('/**/'),
  'slashes and stars': fill('/*/'),
  'dashes behind an escape string': fill('-- ', "select E'a' "),
  'line comments behind escape strings': fill("E'a' -- x\n"),
  'escape strings that never continue': fill("E''\n"),
  'backslashes in an escape string': fill('\\', "E'"),
  'escaped quotes': fill("\\'", "E'"),
  quotes: fill("'"),
  'double quotes': fill('"'),
  'quotes that never end': fill("'a' ", "'"),
  'dollar signs': fill('$ '),
  'pairs of dollar signs': fill('$$ '),
  'tags of which none is closed': fill('$a$ $b$ $c$ '),
  'many tags': Array.from({ length: size / 8 }, (_, place) => `$a${place}$ `).join(''),
  'tags that almost close': fill('$aaaaaaaa', `$${'a'.repeat(1000)}$`),
  'one long tag': fill('a', '$'),
  'one long word': fill('a'),
  'one long number': fill('1'),
  parentheses: fill('('),
  'commands of psql': fill('\\x\n'),
  'spaces before a token': `${fill(' ')}x`,
  'spaces behind a command of psql': `${fill(' ', '\\x')}\n`,
  'bodies in standard SQL': fill('create function f() begin atomic case end end;'),
}
for (const [name, script] of Object.entries(adversaries))
  test(`statements: the work is linear and in slices for ${name}`, () => {
    const text = counted(script)
    const work = splitStatements(text)
    let slices = 0
    for (let before = 0; !work.next().done; before = text.reads, slices++)
      // The scanner reads a character at most three times, including look-ahead, and the line counter once.
      assert.ok(text.reads - before <= 4 * sliceCharacters)
    assert.equal(slices, Math.ceil(script.length / sliceCharacters))
    assert.ok(text.reads <= 4 * script.length, `${text.reads} reads of ${script.length} characters`)
    const expression = counted(script)
    expressionProblem(expression)
    assert.ok(expression.reads <= 4 * script.length, `${expression.reads} reads by expressionProblem`)
  })

test('statements: more than the maximum are rejected before the whole script is read', () => {
  assert.equal(split('a;'.repeat(maxStatements)).length, maxStatements)
  const work = splitStatements('a;'.repeat(20 * maxStatements))
  let slices = 0
  assert.throws(
    () => {
      while (!work.next().done) slices++
    },
    (error: unknown) =>
      error instanceof Refusal &&
      error.status === 400 &&
      /may have 100000 statements; this has more/.test(error.message),
  )
  assert.ok(slices <= Math.ceil((2 * maxStatements) / sliceCharacters))
})

test('statements: the line of an error is found in slices', () => {
  const [statement] = split(`select ${'\n'.repeat(size)} x`)
  const work = lineOfError(statement!, size + 8)
  let slices = 0
  let result = work.next()
  for (; !result.done; result = work.next()) slices++
  assert.equal(result.value, size + 1)
  assert.ok(slices >= Math.floor(size / sliceCharacters))
})
