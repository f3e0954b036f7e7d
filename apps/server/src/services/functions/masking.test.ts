import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maskOf } from './masking.ts'

test('masking: all occurrences of a secret are replaced, and short values are not secrets', () => {
  const mask = maskOf(['s3cret-value', 'on'])
  assert.equal(mask('is s3cret-value on s3cret-value?'), 'is *** on ***?')
})

test('masking: the beginning of a secret at the end of a text that is cut is replaced', () => {
  const mask = maskOf(['s3cret-value', 's3cret-s3cret-s3cret!'])
  assert.equal(mask('it is s3cret-va', true), 'it is ***')
  assert.equal(mask('it is s3cret-s3cret-s3cr', true), 'it is ***')
  assert.equal(mask('it is s3cret-va'), 'it is s3cret-va')
  assert.equal(mask('it is s3cret-value', true), 'it is ***')
})

test('masking: a secret that contains another one is replaced as a whole', () => {
  assert.equal(maskOf(['abcdef', 'xx-abcdef-yy'])('xx-abcdef-yy abcdef'), '*** ***')
})

test('masking: lines of a secret of several lines are replaced one by one', () => {
  const key = '-----BEGIN KEY-----\nMIIEvgIBADANBgkqhkiG9w0\nshort\n-----END KEY-----'
  assert.equal(maskOf([key])('line MIIEvgIBADANBgkqhkiG9w0 short'), 'line *** short')
})
