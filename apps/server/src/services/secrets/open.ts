import { secretsApi } from '@plinth/contract/secrets.ts'
import type { Opened } from '#src/planes/service.ts'
import { secretsRoutes } from './management-routes.ts'
import { type SecretsDeps, type SecretsService, secretsData, secretsService } from './service.ts'

export function openSecrets(deps: SecretsDeps): Opened<SecretsService> {
  const service = secretsService(deps)
  return {
    name: 'secrets',
    service,
    mount: to => to.management(secretsApi, secretsRoutes(service)),
    data: secretsData(deps.sealer),
  }
}
