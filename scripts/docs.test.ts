import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { settings } from '../apps/server/src/settings.ts'
import { Quotas } from '../packages/contract/src/projects.ts'
import { documents, isCurrent } from './write-docs.ts'

for (const file of Object.keys(documents))
  test(`${file} is up to date with the code (npm run docs)`, () => {
    assert.ok(isCurrent(file))
  })

const limits = readFileSync(new URL('../docs/limits.md', import.meta.url), 'utf8')
const limiting = /^PLATFORM_.*(LIMIT|MAX|TIMEOUT|POOL_SIZE|RESERVE)/

for (const name of [
  ...Object.keys(Quotas.properties),
  ...settings.map(setting => setting.name).filter(name => limiting.test(name)),
])
  test(`docs/limits.md lists ${name}`, () => {
    assert.ok(limits.includes(`\`${name}\``))
  })
