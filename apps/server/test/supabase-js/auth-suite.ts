// Runs test files against a platform with real mail in both shapes of the URL, and checks that they called all methods.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { called, covered, type Theme } from './auth-recorder.ts'
import { type Setup, startTestServer, type TestServer } from './auth-setup.ts'
import { shapes } from './auth-shapes.ts'

export type Part = (setup: () => Setup) => void

export function authSuite(theme: Theme, parts: readonly Part[]): void {
  let server: TestServer
  before(async () => {
    server = await startTestServer()
  })
  after(() => server?.stop())

  for (const shape of shapes)
    describe(shape.name, () => {
      let setup: Setup
      before(() => {
        setup = server.setup(shape)
      })
      for (const part of parts) part(() => setup)
    })

  test(`every method under ${theme} is called by this suite`, () => {
    assert.deepEqual(
      covered[theme].filter(method => !called.has(method)),
      [],
    )
  })
}
