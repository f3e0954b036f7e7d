import assert from 'node:assert/strict'
import { test } from 'node:test'
import { documents, isCurrent } from './write-docs.ts'

for (const file of Object.keys(documents))
  test(`${file} says what the code declares (npm run docs)`, () => {
    assert.ok(isCurrent(file))
  })
