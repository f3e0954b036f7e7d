import assert from 'node:assert/strict'
import { test } from 'node:test'
import { matchesGlob } from './glob.ts'

const cases: [string, string, boolean][] = [
  ['https://app.example/', 'https://app.example/', true],
  ['https://app.example/', 'https://app.example/x', false],
  ['https://*.example/', 'https://a.example/', true],
  ['https://*.example/', 'https://a.b.example/', false],
  ['https://*.example/', 'https://evil.test/.example/', false],
  ['https://app.example/**', 'https://app.example/a/b?c=d', true],
  ['https://app.example/**', 'https://app.example.evil/', false],
  ['https://app.example/*', 'https://app.example/a/b', false],
  ['https://app.example/*/end', 'https://app.example/a/end', true],
  ['https://**.example/**/end', 'https://a.b.example/x/y/end', true],
  ['http://localhost:300?/', 'http://localhost:3001/', true],
  ['http://localhost:300?/', 'http://localhost:300/', false],
  ['myapp://**', 'myapp://callback/x', true],
  ['https://a(b).example+', 'https://a(b).example+', true],
  ['**', '', true],
]
for (const [glob, text, matches] of cases)
  test(`redirect glob: ${glob} ${matches ? 'matches' : 'does not match'} ${text}`, () =>
    assert.equal(matchesGlob(glob, text), matches))

test('redirect glob: a pattern built for exponential backtracking is rejected in time', () => {
  const glob = `https://${'**a'.repeat(3)}**b`
  assert.equal(matchesGlob(glob, `https://x/${'a'.repeat(4000)}`), false)
  assert.equal(matchesGlob(`https://${'**a'.repeat(5)}**b`, 'https://x/b'), false, 'too many wildcards')
})
