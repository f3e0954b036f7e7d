import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import { markDestructive } from './destructive.ts'

test('destructive: statements that can lose rows are marked, others are not', () => {
  const losing = [
    '\ndrop table public.things;\n',
    '\nalter table public.things drop column "a; b";\n',
    '\nalter table public.things alter column size type int using size::int;\n',
    '\ndrop schema shop;\n',
    '\nalter table public."a;b" drop column x;\n',
    '\nalter table "the "" shop"."a b" alter column "c d" type int;\n',
  ]
  const safe = [
    'set check_function_bodies = off;\n',
    '\ndrop policy own on public.things;\n',
    '\ndrop index public.things_name;\n',
    '\nalter table public.things add column note text;\n',
    '\nalter table public.things alter column type drop default;\n',
    "\nalter table public.things add column note text default ' drop column ';\n",
    '\nalter table public." drop column " add column note text;\n',
    "\ncreate table public.logs (text text default 'drop table x');\n",
  ]
  for (const statement of losing) {
    const { script, isDestructive } = atOnce(markDestructive([statement]))
    assert.ok(isDestructive, statement)
    assert.equal(script[0], `\n-- destructive\n${statement.trimStart()}`)
  }
  assert.deepEqual(atOnce(markDestructive(safe)), { script: safe, isDestructive: false })
})
