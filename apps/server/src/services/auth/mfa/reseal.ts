// Second factors in a database that was copied to another project. Their secrets are sealed for the id of the first one.
import { isSealed, type Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Reseal } from '#src/tenancy/project-data.ts'
import { secretContext } from './factor-owner.ts'
import { listSecrets, type SealedFactor, saveSecrets, withoutTriggers } from './reseal-store.ts'

const batch = 1000

export function resealFactors(sealer: Sealer): Reseal {
  function resealed({ id, secret }: SealedFactor, from: string, to: string): SealedFactor[] {
    if (!isSealed(secret)) return []
    try {
      const plain = sealer.open(secret, secretContext({ id: from }, id))
      return [{ id, secret: sealer.seal(plain, secretContext({ id: to }, id)) }]
    } catch {
      // The project can write factor rows itself. What did not open in it does not open in the copy.
      return []
    }
  }

  return (database, from, to) =>
    withoutTriggers(database, async () => {
      for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
        const factors = await listSecrets(database, after, batch)
        if (factors.length === 0) return
        await saveSecrets(
          database,
          factors.flatMap(each => resealed(each, from, to)),
        )
        after = factors.at(-1)!.id
      }
    })
}
