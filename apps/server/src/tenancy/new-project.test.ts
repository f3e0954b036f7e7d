import assert from 'node:assert/strict'
import { test } from 'node:test'
import { slugFrom } from './new-project.ts'

test('projects: any name becomes a slug of 3 to 50 lowercase letters, digits and inner hyphens', () => {
  assert.equal(slugFrom('My App'), 'my-app')
  assert.equal(slugFrom('Café — Zürich!'), 'cafe-zurich')
  assert.equal(slugFrom('  --x--  '), 'project-x')
  assert.equal(slugFrom('日本語'), 'project')
  for (const name of ['a'.repeat(49).concat(' bc'), 'x', '!!', 'A-B', `${'ab '.repeat(40)}`])
    assert.match(slugFrom(name), /^[a-z0-9](?:[a-z0-9-]{1,48})[a-z0-9]$/)
})
