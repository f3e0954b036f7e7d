// Creates the first super_admin of a platform with an external database, on a machine that has the platform's secrets.
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { Config } from '#src/config.ts'
import { ConfigError } from '#src/config-error.ts'
import { createHashingLimiter } from '#src/kernel/crypto/hashing-limiter.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createPasswords } from '#src/kernel/crypto/password.ts'
import { openDatabase } from '#src/kernel/postgres/database.ts'
import { bootstrapSuperAdmin } from '#src/services/admin/service.ts'
import { checkNotNewer } from '#src/services/upgrade/control-migration.ts'
import { controlSettings, prepareCluster } from '#src/tenancy/cluster.ts'
import { checkSecret } from '#src/tenancy/secret-proof.ts'

export async function bootstrap(
  config: Config,
  args: string[],
  password: string | undefined,
): Promise<string> {
  const { values } = parseArgs({ args, options: { email: { type: 'string' }, name: { type: 'string' } } })
  if (!config.external || !config.controlPlaneSecret)
    throw new ConfigError('bootstrap needs DATABASE_URL and CONTROL_PLANE_SECRET.')
  if (!values.email || !/^[^@\s]+@[^@\s]+$/.test(values.email))
    throw new ConfigError('bootstrap needs --email <address>.')
  const given = password ?? readFileSync(0, 'utf8').split('\n', 1)[0]!
  if (given.length < 12) throw new ConfigError('The password must have at least 12 characters.')
  const { address, database } = config.external
  await prepareCluster(address, database, {
    async before(session, cluster, missing) {
      await checkNotNewer(session, cluster)
      if (missing.length > 0)
        throw new ConfigError(
          'The database is that of an older release; start the platform and upgrade it first.',
        )
    },
  })
  const control = openDatabase(address, database, controlSettings, () => {}, { max: 2 })
  try {
    await checkSecret(control, keyring(config.controlPlaneSecret))
    const user = await bootstrapSuperAdmin(control, createPasswords(createHashingLimiter()), {
      email: values.email,
      name: values.name ?? '',
      password: given,
    })
    if (!user)
      throw new ConfigError(
        'There is an active super_admin already, or the address is taken; log in and use /admin/users.',
      )
    return JSON.stringify({ id: user.id, email: user.email, role: user.role })
  } finally {
    await control.close()
  }
}
