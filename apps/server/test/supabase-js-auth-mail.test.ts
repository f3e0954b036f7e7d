// The unmodified client: everything that goes by way of a mailbox.
import { changeTests } from './supabase-js/auth-changing.ts'
import { codeTests } from './supabase-js/auth-codes.ts'
import { recoveryTests } from './supabase-js/auth-recovery.ts'
import { authSuite } from './supabase-js/auth-suite.ts'

authSuite('mail', [codeTests, recoveryTests, changeTests])
