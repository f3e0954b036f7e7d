// The unmodified client: signing in with a real OpenID provider, and identities.
import { providerTests } from './supabase-js/auth-providers.ts'
import { authSuite } from './supabase-js/auth-suite.ts'

authSuite('providers', [providerTests])
