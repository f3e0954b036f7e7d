import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lineOfError, splitStatements } from './statements.ts'

const texts = (script: string) => splitStatements(script).map(({ text }) => text)

test('statements end at semicolons and lose the space around them', () => {
  assert.deepEqual(texts('select 1;\n  select 2 ;select 3'), ['select 1', 'select 2', 'select 3'])
  assert.deepEqual(texts(''), [])
  assert.deepEqual(texts(' ;;\n ; '), [])
  assert.deepEqual(texts('-- nothing\n/* at all */'), [])
})

test('a semicolon in quotes, names, comments or parentheses ends nothing', () => {
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

test('a backslash means nothing in a plain string', () => {
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

test('the body of a routine in standard SQL stays whole', () => {
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

test('what is never closed stays whole, for Postgres to complain about', () => {
  for (const open of [`select 'a; b`, 'select "a; b', 'do $$ a; b', 'select /* a; b', 'select (1; 2'])
    assert.deepEqual(texts(open), [open])
})

test('comments belong to the statement behind them', () => {
  assert.deepEqual(texts('-- about one\nselect 1;\n/* about two */ select 2;\n-- the end'), [
    '-- about one\nselect 1',
    '/* about two */ select 2',
  ])
})

test('lines are those of the script', () => {
  const [first, second, third] = splitStatements(
    'select 1;\n\n-- why\n/* and\nhow */ select\n  2; select $$\n\n$$, x',
  )
  assert.deepEqual([first!.line, first!.firstLine], [1, 1])
  assert.deepEqual([second!.line, second!.firstLine], [3, 5])
  assert.deepEqual([third!.line, third!.firstLine], [6, 6])
  const at = (text: string) => third!.text.indexOf(text) + 1
  assert.equal(lineOfError(third!, at(', x')), 8)
  assert.equal(lineOfError(second!, undefined), 5)
  // Postgres counts characters, not the halves of a pair.
  const [emoji] = splitStatements("select '🙂🙂',\nx")
  assert.equal(lineOfError(emoji!, 14), 2)
})

test('the first words tell the kind', () => {
  const words = (script: string) => splitStatements(script)[0]!.words
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

test('a command of psql takes its line', () => {
  const script = '\\restrict abc\nselect 1;\n\\unrestrict abc\n'
  assert.deepEqual(texts(script), ['\\restrict abc', 'select 1', '\\unrestrict abc'])
  assert.deepEqual(splitStatements(script)[0]!.words, ['\\restrict'])
})

test('a script of many megabytes is cut quickly', () => {
  const script = `insert into t values ('${'x'.repeat(1000)}');\n`.repeat(10_000)
  const started = performance.now()
  assert.equal(splitStatements(script).length, 10_000)
  assert.ok(performance.now() - started < 2000)
})
