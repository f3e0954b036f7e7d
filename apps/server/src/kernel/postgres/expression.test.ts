import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { inParentheses } from './expression.ts'

const valid = [
  'true',
  'user_id = auth.uid()',
  "name <> ') ; drop table x; --'",
  `"a)b" is not null and "c""d;" > 1`,
  "E'it\\'s );' <> ''",
  "E'a'\n  -- ;\n 'b\\');'  = ''",
  "$$ ); $$ <> $tag$ $$ ; $tag$ || 'x'",
  'a$b$c is null and (d)',
  '/* ) /* ; */ ( */ 1',
  '1 -- ) ;',
  'a ->> $1 = b',
  "U&'d\\0061t)' = x'1F'::text",
  'exists (select 1 from members m where m.team = teams.id)',
  "café = 'ü' and 日本 > 0",
]
for (const expression of valid)
  test(`stays within its parentheses: ${JSON.stringify(expression)}`, () => {
    assert.equal(inParentheses(expression, 'It'), `(${expression}\n)`)
  })

const invalid: [string, RegExp][] = [
  ['true; drop table x', /semicolon/],
  ['true) or (true', /closes a parenthesis/],
  ['1), add column evil text default (1', /closes a parenthesis/],
  ['((true)', /opens a parenthesis/],
  ["'it", /begins with '/],
  ["'a''", /begins with '/],
  ['"name', /begins with "/],
  ['$x$ text $y$', /begins with \$/],
  ['/* /* */ true', /comment/],
  // A backslash does not escape in a plain string, so the string ends before the parenthesis.
  ["'a\\') --'", /closes a parenthesis/],
  // Postgres treats a no-break space as a letter, so the escape string ends before it.
  ["E'a'\n\u00a0'\\') --'", /closes a parenthesis/],
  ["E'a' 'b\\') --'", /closes a parenthesis/],
  ['a\0b', /NUL/],
]
for (const [expression, why] of invalid)
  test(`is rejected: ${JSON.stringify(expression)}`, () => {
    assert.throws(
      () => inParentheses(expression, 'The check'),
      (error: unknown) =>
        error instanceof Refusal &&
        error.code === 'sql_error' &&
        why.test(error.message) &&
        /^The check/.test(error.message),
    )
  })
