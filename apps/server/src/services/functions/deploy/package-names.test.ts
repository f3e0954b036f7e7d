import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PackageNames } from './package-names.ts'

test('package names: a package keeps its specifier, and a second version gets an alias', () => {
  const names = new PackageNames()
  assert.equal(names.specifierFor('npm:zod@3/v4'), 'npm:zod@3/v4')
  assert.equal(names.specifierFor('npm:zod@3'), 'npm:zod@3')
  assert.equal(names.specifierFor('npm:zod@4/mini'), 'plinth-alias-1/mini')
  assert.equal(names.specifierFor('npm:zod@4'), 'plinth-alias-1')
  assert.equal(names.specifierFor('npm:@a/b'), 'npm:@a/b')
  assert.deepEqual(Object.fromEntries(names.wanted), {
    zod: 'npm:zod@3',
    'plinth-alias-1': 'npm:zod@4',
    '@a/b': 'npm:@a/b@*',
  })
  assert.deepEqual(names.imports(), {
    'plinth-alias-1': 'npm:zod@4',
    'plinth-alias-1/': 'npm:/zod@4/',
  })
})

test('package names: a specifier that names no package is refused', () => {
  const names = new PackageNames()
  for (const specifier of ['npm:', 'npm:a b', 'npm:@scope', `npm:${'a'.repeat(300)}`, 'npm:a@"x"'])
    assert.equal(names.specifierFor(specifier), undefined, specifier)
  assert.equal(names.specifierFor('npm:constructor@1'), 'npm:constructor@1')
})
