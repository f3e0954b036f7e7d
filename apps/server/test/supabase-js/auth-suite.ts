// One file of the suite: a platform with real mail, its tests in both shapes of the URL, and a last look at what
// they called.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { called, type Theme, walked } from './auth-recorder.ts'
import { shapes } from './auth-shapes.ts'
import { type House, openHouse, type Stage } from './auth-stage.ts'

export type Part = (stage: () => Stage) => void

export function authSuite(theme: Theme, parts: readonly Part[]): void {
  let house: House
  before(async () => {
    house = await openHouse()
  })
  after(() => house?.stop())

  for (const shape of shapes)
    describe(shape.name, () => {
      let stage: Stage
      before(() => {
        stage = house.stage(shape)
      })
      for (const part of parts) part(() => stage)
    })

  test(`every method under ${theme} was called above`, () => {
    assert.deepEqual(
      walked[theme].filter(method => !called.has(method)),
      [],
    )
  })
}
